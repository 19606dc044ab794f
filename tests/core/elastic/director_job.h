// A director under test, with its clock and the commands that it has given.
#pragma once

#include <doctest/doctest.h>

#include <initializer_list>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "core/elastic/director.h"

namespace ronde::elastic {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline const WorkerEnd kKilled{137, "was killed by signal 9 (Killed)"};
inline const WorkerEnd kException{1, "exited with status 1"};

inline ReadyNote after(EpochId last, bool began, std::vector<WorkerId> suspects) {
  ReadyNote note;
  note.last_epoch = last;
  note.began = began;
  note.holds_state = true;
  note.suspects = std::move(suspects);
  note.why = "lost";
  return note;
}

/// The end of a worker of whose state the agent keeps copies of this step.
inline WorkerEnd killed_at(CopyStep step) {
  WorkerEnd end = kKilled;
  end.copy_step = step;
  return end;
}

inline ReadyNote without_state(EpochId last) {
  ReadyNote note;
  note.last_epoch = last;
  note.why = "lost";
  return note;
}

inline ReadyNote resumable() {
  ReadyNote note;
  note.can_resume = true;
  return note;
}

/// One job. Commands are collected after each event.
struct DirectorJob {
  explicit DirectorJob(DirectorOptions options = {}, std::vector<HostPlaces> hosts = {{"a", 4}})
      : director(options) {
    director.set_hosts(hosts, time);
    collect();
  }

  /// Trials of hosts end well at once, but for those of `unreached`.
  void collect() {
    for (Command& command : director.take_commands()) {
      const auto* const trial = std::get_if<TryHost>(&command);
      if (trial != nullptr && trial->host != unreached) {
        director.on_host_tried(trial->host, {}, time);
        collect();
      } else {
        all.push_back(std::move(command));
      }
    }
  }
  /// The commands of a kind since the last call.
  template <typename Kind>
  std::vector<Kind> take() {
    std::vector<Kind> found;
    std::vector<Command> rest;
    for (Command& command : all) {
      if (auto* match = std::get_if<Kind>(&command)) {
        found.push_back(*match);
      } else {
        rest.push_back(std::move(command));
      }
    }
    all = std::move(rest);
    return found;
  }
  std::vector<WorkerId> started() {
    std::vector<WorkerId> ids;
    for (const StartWorker& start : take<StartWorker>()) ids.push_back(start.worker);
    return ids;
  }
  /// The workers of the one new epoch; none if there is none.
  std::vector<WorkerId> epoch() {
    const auto begun = take<BeginEpoch>();
    REQUIRE(begun.size() <= 1);
    std::vector<WorkerId> ids;
    if (begun.empty()) return ids;
    for (const EpochWorker& worker : begun[0].workers) ids.push_back(worker.worker);
    return ids;
  }
  std::optional<FailJob> failure() {
    const auto failures = take<FailJob>();
    return failures.empty() ? std::nullopt : std::optional(failures[0]);
  }

  void ready(WorkerId id, ReadyNote note = {}) {
    director.on_ready(id, note, time);
    collect();
  }
  void ready(const std::vector<WorkerId>& ids, EpochId last, std::vector<WorkerId> suspects = {}) {
    for (const WorkerId id : ids) {
      ready(id, after(last, true, suspects));
    }
  }
  /// A worker starts, is given copies, and becomes ready.
  void bring(WorkerId id, CopyStep step) {
    director.on_started(id, step);
    ready(id, step == kNoCopy ? ReadyNote{} : resumable());
  }
  void end(WorkerId id, const WorkerEnd& how) {
    director.on_ended(id, how, time);
    collect();
  }
  void wait(Duration duration) {
    time += duration;
    director.on_time(time);
    collect();
  }
  void holds(const std::vector<WorkerId>& ids) {
    for (const WorkerId id : ids) director.on_holds(id);
  }
  /// Four workers in their first epoch, which all hold the state.
  void run_four() {
    REQUIRE(started() == std::vector<WorkerId>{1, 2, 3, 4});
    for (const WorkerId id : std::initializer_list<WorkerId>{1, 2, 3, 4}) ready(id);
    REQUIRE(epoch() == std::vector<WorkerId>{1, 2, 3, 4});
    holds({1, 2, 3, 4});
  }

  TimePoint time = TimePoint(seconds(1000));
  Director director;
  std::vector<Command> all;
  std::string unreached;  ///< A host whose trials the test ends.
};

}  // namespace ronde::elastic
