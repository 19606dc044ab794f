// All traces of a job: of each epoch, and the history of an elastic one: who came and went, and the
// cost of each transition.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "timeline/reading/event_parser.h"
#include "timeline/report/job_trace.h"

namespace ronde::report {

/// A change of one worker, as the launcher saw it.
struct WorkerChange {
  int worker = 0;
  std::string event;  ///< As to_string(WorkerEvent): "died", "joined", "left", ...
  std::string why;
  std::int64_t time_ns = 0;
};

/// The transition from the epoch before to this one. Its parts follow one another: each ends when
/// the last worker that goes on has finished it.
struct Transition {
  bool failed = false;           ///< The epoch before ended by a failure; else by a change.
  std::int64_t start_ns = 0;     ///< The failure, or the first worker's leaving.
  std::int64_t notice_ns = 0;    ///< Duration until a worker noticed.
  std::int64_t leave_ns = 0;     ///< Until all had left the epoch.
  std::int64_t wait_ns = 0;      ///< Until the launcher had given all a place.
  std::int64_t connect_ns = 0;   ///< Until all were connected.
  std::int64_t first_ns = 0;     ///< Until all had finished an operation.
  std::int64_t lost_ns = -1;     ///< Work since the last commit, done again; -1: unknown.
  std::uint64_t lost_steps = 0;  ///< The steps marked in that time.

  [[nodiscard]] std::int64_t duration_ns() const noexcept {
    return notice_ns + leave_ns + wait_ns + connect_ns + first_ns;
  }
};

/// One epoch of the job. Times are on the job's clock.
struct Epoch {
  int number = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  bool open = false;                     ///< The launcher's trace has its begin, but no end.
  std::string why;                       ///< The launcher's cause, for people.
  std::vector<int> workers;              ///< By rank.
  std::vector<int> joined;               ///< Not in the epoch before. Empty in the first epoch.
  std::vector<WorkerChange> changes;     ///< Until the next epoch began.
  std::optional<Transition> transition;  ///< None in the first epoch, or if no trace shows it.

  [[nodiscard]] std::int64_t duration_ns() const noexcept { return end_ns - begin_ns; }
};

/// Collects the launcher's events. Threads: one.
class LauncherEvents {
 public:
  /// Takes an event of kJobRow, with its time on the job's clock.
  void take(const TraceEvent& event);
  /// The epochs that the launcher has recorded, by number.
  [[nodiscard]] const std::map<int, Epoch>& epochs() const noexcept { return epochs_; }

 private:
  std::map<int, Epoch> epochs_;
  int open_ = 0;  ///< The epoch whose span is open; 0: none.
};

/// The epochs in their order, from the launcher's events and the workers' traces. Either may be
/// missing.
std::vector<Epoch> history_of(const LauncherEvents& launcher,
                              const std::map<int, JobTrace>& epochs);

/// The epochs as a table, what each transition cost, and totals. Lines as those of text_report().
std::string epochs_report(const std::vector<Epoch>& history);
/// A running job's newest epoch and its workers, and those that are gone, for a terminal.
std::string workers_report(const std::vector<Epoch>& history);
/// The cause of the epoch: "worker 2 died: was killed; worker 4 joined". `before`: the epoch
/// before it; null: none.
std::string cause_of(const Epoch& epoch, const Epoch* before);

/// A job as its traces show it.
struct LoadedJob {
  std::map<int, JobTrace> epochs;  ///< By number, at least one; 0 alone in a job not elastic.
  std::vector<Epoch> history;      ///< Empty in a job not elastic.

  [[nodiscard]] bool elastic() const noexcept { return !epochs.contains(0); }
  /// The number of the epoch whose traces last longest.
  [[nodiscard]] int longest_epoch() const;
};

/// Reads `paths`: one trace of each rank (of each worker in each epoch, and the launcher's), or one
/// merged trace. Truncated traces are read as far as they go, with a note. If `tail_bytes` is not
/// 0, reads only that many last bytes of uncompressed traces, and the names in that many first
/// bytes. Memory: see JobTrace. Errors: kInvalidArgument naming the file, and the byte if it is
/// malformed: no trace of Ronde, several jobs, one rank twice, a merged trace among others;
/// kUnavailable if a file cannot be read.
Result<LoadedJob> load_job(const std::vector<std::string>& paths, const ReadProgress& progress = {},
                           std::uint64_t tail_bytes = 0);

}  // namespace ronde::report
