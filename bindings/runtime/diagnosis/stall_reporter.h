// Warns of operations that do not end, in a thread of its own: it asks the other ranks of this host
// which of them are late.
#pragma once

#include <atomic>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "bindings/runtime/diagnosis/rank_query.h"
#include "core/base/status.h"
#include "core/engine/records/record_watch.h"
#include "timeline/dump.h"

namespace ronde::diagnosis {

/// An operation that does not end.
struct LateOperation {
  DumpOperation operation;
  std::size_t others = 0;    ///< Operations that move together with it.
  std::int64_t late_ns = 0;  ///< Time since its start.
  bool over_limit = false;   ///< The job is to fail.
};

/// `allreduce "w" and 3 more have run for 60 s and wait for rank 1 (train.py:2 in load)`; `own` is
/// this rank's dump.
std::string late_text(const LateOperation& late, const Dump& own,
                      const std::vector<RankAnswer>& answers);

/// True if a lower rank of this host waits in the same operation: that one reports it.
bool is_reported_below(const DumpOperation& operation, int rank,
                       const std::vector<RankAnswer>& answers);

/// Threads: one, but for the functions that it calls.
class StallReporter {
 public:
  /// `fail`: declares the job broken. Called in the reporter's thread; may be empty.
  explicit StallReporter(std::function<void(const Status&)> fail) : fail_(std::move(fail)) {}
  /// Ends a report that is under way.
  ~StallReporter();
  StallReporter(const StallReporter&) = delete;
  StallReporter& operator=(const StallReporter&) = delete;

  /// True while a report is under way.
  [[nodiscard]] bool busy() const noexcept { return busy_.load(std::memory_order_acquire); }
  /// Logs a warning for each operation, or fails the job. `own`: this rank's dump. Call it only
  /// while not busy(). Blocks: never.
  void report(DiagnosticsAddress self, Dump own, std::vector<LateOperation> late);

 private:
  void run(const DiagnosticsAddress& self, const Dump& own, const std::vector<LateOperation>& late,
           const std::stop_token& stop);

  const std::function<void(const Status&)> fail_;
  std::atomic<bool> busy_{false};
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace ronde::diagnosis
