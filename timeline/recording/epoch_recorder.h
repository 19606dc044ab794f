// Records the epochs of an elastic job in a trace of the launcher's own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "timeline/recording/trace_file.h"
#include "timeline/recording/trace_head.h"

namespace ronde {

/// Names in the launcher's trace, by which readers know its events.
inline constexpr std::string_view kEpochSpan = "epoch";
inline constexpr std::string_view kWorkersTrack = "workers";

/// An epoch as it begins.
struct EpochFacts {
  int number = 0;
  std::vector<int> workers;  ///< By rank.
  std::string why;           ///< Its cause, for people; may be empty.
};

/// Changes of a worker.
enum class WorkerEvent : std::uint8_t { kStarted, kJoined, kLeft, kDied, kFinished };
/// "started", "joined", ...
std::string_view to_string(WorkerEvent event) noexcept;

/// Each call writes at once. After a failed write the recording ends with a warning. Threads: one.
class EpochRecorder {
 public:
  /// Records to epochs_trace_path(path). `job`: the beginning of its epochs' job ids. Errors:
  /// kUnavailable naming the file.
  static Result<EpochRecorder> open(const std::string& path, const std::string& job);

  /// Begins an epoch. Ends what was before.
  void begin_epoch(const EpochFacts& epoch);
  /// Ends the epoch, if one is open: its first worker has failed, or asks for the next one. A span
  /// that lasts until the next epoch begins.
  void end_epoch(bool failed);
  /// `epoch`: the last one that has begun. `why`: for people; may be empty.
  void add(WorkerEvent event, int worker, int epoch, std::string_view why);
  /// Ends what is open.
  void close();

 private:
  EpochRecorder(TraceFile file, std::int64_t start_ns)
      : file_(std::move(file)), start_ns_(start_ns) {}
  void write(char phase, int track, std::string_view rest);
  void write_line(const std::string& line);
  void end_span();

  TraceFile file_;
  std::int64_t start_ns_;
  bool open_epoch_ = false;
  bool open_span_ = false;
  bool failed_ = false;  ///< Nothing is written any more.
};

}  // namespace ronde
