// Traces as PyTorch's profiler writes them, for tools that read those: a file of each rank, in
// Chrome's object form, each span as one event.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "timeline/trace_output.h"

namespace ronde {

/// Writes rank<r>.pt.trace.json for each rank into a folder. Spans that do not end are left out, as
/// are counters and marks; from each end of a step to the next goes a span "ProfilerStep#<n>". Each
/// file appears whole. Threads: one. Memory: the spans that are open.
class ProfilerOutput : public TraceOutput {
 public:
  explicit ProfilerOutput(std::string folder) : folder_(std::move(folder)) {}
  void add(const MergedEvent& event) override;
  Status finish() override;

 private:
  /// What has begun and not ended.
  struct OpenSpan {
    std::int64_t start_ns;
    std::string name;  ///< As JSON, as the next: members without braces.
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
  bool any_ = false;  ///< Line in the file.
  std::int64_t step_ns_ = -1;
  std::unordered_map<std::int64_t, std::vector<OpenSpan>> open_;  ///< By lane.
  std::string line_;                                              ///< Reused.
};

}  // namespace ronde
