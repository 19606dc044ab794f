// Traces as PyTorch's profiler writes them: one file for each rank, in Chrome's object form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "timeline/merging/trace_output.h"
#include "timeline/recording/trace_format.h"

namespace ronde {

/// Writes rank<r>.pt.trace.json for each rank into a folder. Each span is one event. Counters,
/// marks and spans without an end are left out. A span "ProfilerStep#<n>" covers each step. Each
/// file appears whole. Threads: one. Memory: the open spans.
class ProfilerOutput : public TraceOutput {
 public:
  explicit ProfilerOutput(std::string folder) : folder_(std::move(folder)) {}
  void add(const MergedEvent& event) override;
  Status finish() override;

 private:
  /// A span without its end.
  struct OpenSpan {
    std::int64_t start_ns;
    std::string name;  ///< As JSON, like `args`: members without braces.
    std::string args;
  };

  void begin_rank(std::int64_t rank);
  void end_rank();
  void end_span(const MergedEvent& end);
  void end_step(const MergedEvent& mark);
  void write_line();

  const std::string folder_;
  Status status_;
  std::optional<OutFile> file_;
  std::int64_t rank_ = -1;
  bool any_ = false;  ///< The file has a line.
  std::int64_t step_ns_ = -1;
  std::unordered_map<std::int64_t, std::vector<OpenSpan>> open_;  ///< By track.
  QuotedTexts quoted_;
  std::string line_;  ///< Reused.
};

}  // namespace ronde
