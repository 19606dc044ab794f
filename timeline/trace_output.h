// What a merge writes: the events of all ranks as Chrome's JSON or as Perfetto's protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "timeline/flows.h"
#include "timeline/out_file.h"
#include "timeline/report/event_parser.h"

namespace ronde {

/// An event on the job's clock.
struct MergedEvent {
  std::string_view text;            ///< As it stood in its trace: a JSON object.
  const report::TraceEvent& event;  ///< The same, read; but for its time.
  std::int64_t time_ns = 0;         ///< Where it has one.
};

/// Threads: one.
class TraceOutput {
 public:
  virtual ~TraceOutput() = default;
  virtual void add(const MergedEvent& event) = 0;
  /// Completes the file. Errors: kUnavailable naming it and why.
  virtual Status finish() = 0;
};

/// The output that `path` names, which gets the arrows that `flows` has; that must outlive it.
/// Errors: kUnavailable naming it.
Result<std::unique_ptr<TraceOutput>> open_output(const std::string& path, Flows& flows);

/// Chrome's format, JSON array form: the events as they stood, but for their times, and arrows.
class JsonOutput : public TraceOutput {
 public:
  JsonOutput(OutFile file, Flows& flows) : file_(std::move(file)), flows_(flows) {}
  void add(const MergedEvent& event) override;
  Status finish() override;

 private:
  void append_arrow(const Arrow& arrow, const MergedEvent& event);

  OutFile file_;
  Flows& flows_;
  std::string line_;  ///< Reused.
  bool any_ = false;
};

}  // namespace ronde
