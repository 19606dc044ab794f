// The commands that a director gives to the launcher of an elastic job.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/elastic/roster.h"

namespace ronde::elastic {

/// Start a worker.
struct StartWorker {
  WorkerId worker = 0;
  std::string host;
};
/// Find out if a host and these others reach each other.
struct TryHost {
  std::string host;
  std::vector<std::string> others;
};
/// Kill a worker; its end is reported as any.
struct StopWorker {
  WorkerId worker = 0;
};
/// Send all of them their places in a new epoch.
struct BeginEpoch {
  EpochId epoch = 0;
  std::vector<EpochWorker> workers;  ///< By rank.
  std::string why;
};
/// Send them the change.
struct SendChange {
  std::vector<WorkerId> workers;
  ChangedNote note;
};
/// Tell them that their epoch cannot begin any more, if it has not begun.
struct SendVoid {
  std::vector<WorkerId> workers;
  VoidNote note;
};
/// Send it the dismissal.
struct DismissWorker {
  WorkerId worker = 0;
  DismissedNote note;
};
/// Print a line for people.
struct Report {
  std::string text;
};
/// The job has failed: end all workers, exit with this status.
struct FailJob {
  int exit_status = 1;
  std::string text;
};
using Command = std::variant<StartWorker, TryHost, StopWorker, BeginEpoch, SendChange, SendVoid,
                             DismissWorker, Report, FailJob>;

/// Commands that wait to be carried out, in order. Threads: one.
class Commands {
 public:
  void add(Command command) { waiting_.push_back(std::move(command)); }
  void report(std::string text) { add(Report{std::move(text)}); }
  /// Its end is awaited, but nothing else of it.
  void dismiss(Roster::Entry& entry, bool failed, const std::string& why) {
    entry.second.stopped = true;
    entry.second.state = RosterWorker::State::kFinished;
    add(DismissWorker{entry.first, {failed, why}});
  }
  /// All that wait; then none do.
  [[nodiscard]] std::vector<Command> take() { return std::exchange(waiting_, {}); }

 private:
  std::vector<Command> waiting_;
};

}  // namespace ronde::elastic
