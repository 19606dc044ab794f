// The story of an elastic job: its epochs, who came and went, and the cost of each passage.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

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

/// The way from the epoch before to this one. The parts follow one another, over all workers that
/// went on: a part ends when the last of them has finished it.
struct Passage {
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
struct EpochStory {
  int number = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  bool open = false;                  ///< The launcher's trace has its begin, but no end.
  std::string why;                    ///< The launcher's cause, for people.
  std::vector<int> workers;           ///< By rank.
  std::vector<int> joined;            ///< Not in the epoch before. Empty in the first epoch.
  std::vector<WorkerChange> changes;  ///< Until the next epoch began.
  std::optional<Passage> passage;     ///< None in the first epoch, or if no trace shows it.

  [[nodiscard]] std::int64_t duration_ns() const noexcept { return end_ns - begin_ns; }
};

/// Collects the launcher's events. Threads: one.
class LauncherEvents {
 public:
  /// Takes an event of kJobRow, with its time on the job's clock.
  void take(const TraceEvent& event);
  /// The epochs that the launcher has recorded, by number.
  [[nodiscard]] const std::map<int, EpochStory>& epochs() const noexcept { return epochs_; }

 private:
  std::map<int, EpochStory> epochs_;
  int open_ = 0;  ///< The epoch whose span is open; 0: none.
};

/// The epochs in their order, from the launcher's events and the workers' traces. Either may be
/// missing.
std::vector<EpochStory> tell_story(const LauncherEvents& launcher,
                                   const std::map<int, JobTrace>& epochs);

/// The epochs as a table, what each passage cost, and totals. Lines as those of text_report().
std::string epochs_report(const std::vector<EpochStory>& story);
/// A running job's newest epoch and its workers, and those that are gone, for a terminal.
std::string workers_report(const std::vector<EpochStory>& story);
/// The cause of the epoch: "worker 2 died: was killed; worker 4 joined". `before`: the epoch
/// before it; null: none.
std::string cause_of(const EpochStory& epoch, const EpochStory* before);

}  // namespace ronde::report
