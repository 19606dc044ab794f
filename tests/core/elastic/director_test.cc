#include "core/elastic/director.h"

#include <doctest/doctest.h>

#include <optional>

namespace ronde::elastic {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const WorkerEnd kKilled{137, "was killed by signal 9 (Killed)"};
const WorkerEnd kException{1, "exited with status 1"};

ReadyNote after(EpochId last, bool began, std::vector<WorkerId> suspects) {
  ReadyNote note;
  note.last_epoch = last;
  note.began = began;
  note.holds_state = true;
  note.suspects = std::move(suspects);
  note.why = "lost";
  return note;
}

ReadyNote resumable() {
  ReadyNote note;
  note.can_resume = true;
  return note;
}

/// A director, its clock and the commands that it has given.
struct Job {
  explicit Job(DirectorOptions options = {}, std::vector<HostPlaces> hosts = {{"a", 4}})
      : director(options) {
    director.set_hosts(hosts, time);
    collect();
  }

  void collect() {
    for (Command& command : director.take_commands()) all.push_back(std::move(command));
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
};

TEST_CASE("director: the first epoch begins when all workers that started are ready") {
  Job job;
  CHECK(job.started().size() == 4);
  for (const WorkerId id : std::initializer_list<WorkerId>{3, 1, 4}) job.ready(id);
  CHECK(job.epoch().empty());
  job.ready(2);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 3, 4});
}

TEST_CASE("director: a first epoch goes without workers that never become ready") {
  DirectorOptions options;
  options.min_workers = 2;
  Job job(options);
  job.ready(1);
  job.ready(2);
  CHECK(job.epoch().empty());
  CHECK(job.director.next_deadline(job.time) == job.time + options.start_timeout);
  job.wait(options.start_timeout);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2});
}

TEST_CASE("director: after a death the others go on at once, in their order") {
  Job job;
  job.run_four();
  job.end(2, kKilled);
  CHECK(job.started() == std::vector<WorkerId>{5});
  job.ready({4, 1}, 1, {2});
  CHECK(job.epoch().empty());
  job.ready({3}, 1, {2});
  CHECK(job.epoch() == std::vector<WorkerId>{1, 3, 4});
  CHECK(job.director.epoch() == 2);
}

TEST_CASE("director: who computes is waited for") {
  Job job;
  job.run_four();
  job.end(2, kKilled);
  job.ready({1, 3}, 1, {2});
  job.wait(std::chrono::minutes(30));
  CHECK(job.epoch().empty());
  CHECK(job.take<StopWorker>().empty());
  job.ready({4}, 1, {2});
  CHECK(job.epoch() == std::vector<WorkerId>{1, 3, 4});
}

TEST_CASE("director: a joiner ends the epoch at its next commit, and comes last") {
  Job job;
  job.run_four();
  job.end(1, kKilled);
  job.ready({2, 3, 4}, 1, {1});
  CHECK(job.epoch() == std::vector<WorkerId>{2, 3, 4});
  job.ready(5);
  const auto changes = job.take<SendChange>();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].workers == std::vector<WorkerId>{2, 3, 4});
  CHECK(changes[0].note.epoch == 2);
  CHECK(changes[0].note.change == Change::kAdded);
  job.wait(seconds(5));
  CHECK(job.take<SendChange>().empty());
  job.ready({3, 4, 2}, 2);
  CHECK(job.epoch() == std::vector<WorkerId>{2, 3, 4, 5});
}

TEST_CASE("director: joiners of one moment share an epoch") {
  Job job;
  job.run_four();
  job.end(1, kKilled);
  job.end(2, kKilled);
  CHECK(job.started() == std::vector<WorkerId>{5, 6});
  job.ready({3, 4}, 1, {1, 2});
  CHECK(job.epoch() == std::vector<WorkerId>{3, 4});
  job.ready(5);
  CHECK(job.take<SendChange>().empty());
  job.ready(6);
  CHECK(job.take<SendChange>().size() == 1);
}

TEST_CASE("director: a joiner does not wait for ever for another one") {
  Job job;
  job.run_four();
  job.end(1, kKilled);
  job.end(2, kKilled);
  job.ready({3, 4}, 1, {1, 2});
  job.ready(5);
  CHECK(job.take<SendChange>().empty());
  job.wait(job.director.next_deadline(job.time) - job.time);
  CHECK(job.take<SendChange>().size() == 1);
}

TEST_CASE("director: only suspects are missing: they are stopped after a grace") {
  Job job;
  job.run_four();
  job.ready({1, 2}, 1, {4});
  CHECK(job.director.next_deadline(job.time) == kForever);
  job.ready({3}, 1, {4});
  const TimePoint deadline = job.director.next_deadline(job.time);
  REQUIRE(deadline != kForever);
  job.wait(deadline - job.time);
  const auto stops = job.take<StopWorker>();
  REQUIRE(stops.size() == 1);
  CHECK(stops[0].worker == 4);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 3});
  job.end(4, kKilled);
  CHECK(job.started() == std::vector<WorkerId>{5});
}

TEST_CASE("director: below the least number it waits, says so, and gives up in the end") {
  DirectorOptions options;
  options.min_workers = 2;
  options.elastic_timeout = seconds(30);
  Job job(options, {{"a", 2}});
  job.ready(1);
  job.ready(2);
  CHECK(job.epoch().size() == 2);
  job.holds({1, 2});
  job.end(2, kKilled);
  job.ready({1}, 1, {2});
  CHECK(job.epoch().empty());
  const auto reports = job.take<Report>();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].text == "waiting for 1 worker more, up to 30 s: 1 worker of at least 2 ready");
  SUBCASE("a joiner comes") {
    job.ready(3);
    CHECK(job.epoch() == std::vector<WorkerId>{1, 3});
  }
  SUBCASE("nobody comes") {
    job.wait(seconds(30));
    const auto failure = job.failure();
    REQUIRE(failure);
    CHECK(failure->exit_status == 1);
    CHECK(failure->text.find("1 worker of at least 2 ready after 30 s (--elastic-timeout)") == 0);
  }
}

TEST_CASE("director: more deaths during a recovery are ordinary") {
  Job job;
  job.run_four();
  job.end(1, kKilled);
  job.ready({2, 3}, 1, {1});
  job.end(3, kKilled);
  job.ready({4}, 1, {1});
  CHECK(job.epoch() == std::vector<WorkerId>{2, 4});
  job.end(2, kKilled);
  job.ready({4}, 2, {2});
  CHECK(job.epoch() == std::vector<WorkerId>{4});
}

TEST_CASE("director: if nobody holds the state any more the job fails") {
  Job job;
  job.run_four();
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 2, 3, 4}) job.end(id, kKilled);
  CHECK_FALSE(job.failure());
  const std::vector<WorkerId> fresh = job.started();
  SUBCASE("without a checkpoint") {
    for (const WorkerId id : fresh) job.ready(id);
    const auto failure = job.failure();
    REQUIRE(failure);
    CHECK(failure->exit_status == 137);
    CHECK(failure->text.find("every worker that held the state has ended") == 0);
    CHECK(job.epoch().empty());
  }
  SUBCASE("with one") {
    for (const WorkerId id : fresh) job.ready(id, resumable());
    CHECK_FALSE(job.failure());
    CHECK_FALSE(job.epoch().empty());
  }
}

TEST_CASE("director: a joiner without the state never comes before those that hold it") {
  Job job;
  job.run_four();
  job.end(4, kKilled);
  job.ready({1, 2, 3}, 1);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 3});
  job.ready(5);
  job.ready({1, 2, 3}, 2);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 3, 5});
  job.end(1, kKilled);  // before worker 5 got the state
  ReadyNote without = after(3, true, {1});
  without.holds_state = false;
  job.ready(5, without);
  job.ready({3, 2}, 3, {1});
  CHECK(job.epoch() == std::vector<WorkerId>{2, 3, 5});
}

TEST_CASE("director: an exception in the first epoch's start ends the job") {
  Job job;
  job.end(3, kException);
  const auto failure = job.failure();
  REQUIRE(failure);
  CHECK(failure->exit_status == 1);
  CHECK(failure->text == "worker 3 exited with status 1");
}

TEST_CASE("director: an exception on all workers ends the job") {
  Job job;
  job.run_four();
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 2, 3}) job.end(id, kException);
  CHECK_FALSE(job.failure());
  job.end(4, kException);
  CHECK(job.failure());
}

TEST_CASE("director: workers whose host vanishes from the list leave at a commit") {
  Job job({}, {{"a", 2}, {"b", 2}});
  job.run_four();
  job.director.set_hosts({{"a", 2}}, job.time);
  job.collect();
  const auto changes = job.take<SendChange>();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].note.change == Change::kRemoved);
  job.ready({1, 2, 3, 4}, 1);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2});
  const auto dismissed = job.take<DismissWorker>();
  REQUIRE(dismissed.size() == 2);
  CHECK_FALSE(dismissed[0].note.failed);
  job.end(3, {0, "exited with status 0"});
  CHECK(job.started().empty());
  CHECK_FALSE(job.director.over());
}

TEST_CASE("director: workers that were too many stay if others die before they have left") {
  Job job;
  job.run_four();
  job.director.set_hosts({{"a", 2}}, job.time);
  job.collect();
  job.end(1, kKilled);
  job.end(2, kKilled);
  job.ready({3, 4}, 1, {1});
  CHECK(job.epoch() == std::vector<WorkerId>{3, 4});
  CHECK(job.take<DismissWorker>().empty());
  CHECK(job.started().empty());
}

TEST_CASE("director: new hosts get workers, up to the most that are wanted") {
  DirectorOptions options;
  options.max_workers = 5;
  Job job(options);
  job.run_four();
  job.director.set_hosts({{"a", 4}, {"b", 4}}, job.time);
  job.collect();
  const auto starts = job.take<StartWorker>();
  REQUIRE(starts.size() == 1);
  CHECK(starts[0].host == "b");
}

TEST_CASE("director: a worker that is asked to leave goes at the next commit and is not replaced") {
  Job job;
  job.run_four();
  job.director.on_leaving(3, job.time);
  job.collect();
  CHECK(job.take<SendChange>().size() == 1);
  job.ready({1, 2, 3, 4}, 1);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 4});
  const auto dismissed = job.take<DismissWorker>();
  REQUIRE(dismissed.size() == 1);
  CHECK(dismissed[0].worker == 3);
  job.end(3, {0, "exited with status 0"});
  job.wait(seconds(100));
  CHECK(job.started().empty());
}

TEST_CASE("director: leavers that alone hold the state hand it over first") {
  Job job({}, {{"a", 1}});
  CHECK(job.started() == std::vector<WorkerId>{1});
  job.ready(1);
  CHECK(job.epoch() == std::vector<WorkerId>{1});
  job.holds({1});
  job.director.set_hosts({{"b", 1}}, job.time);
  job.collect();
  CHECK(job.started() == std::vector<WorkerId>{2});
  job.ready(2);
  job.ready({1}, 1);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2});
  job.holds({2});
  job.ready({1, 2}, 2);
  CHECK(job.epoch() == std::vector<WorkerId>{2});
  CHECK(job.take<DismissWorker>().size() == 1);
}

TEST_CASE("director: a blacklisted host loses all its workers") {
  DirectorOptions options;
  options.pauses = {FailurePolicy::kBlacklist, seconds(10), seconds(20)};
  Job job(options, {{"a", 2}, {"b", 2}});
  job.run_four();
  job.end(3, kKilled);
  job.ready({1, 2, 4}, 1, {3});
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2});
  CHECK(job.take<DismissWorker>().size() == 1);
  job.end(4, {0, ""});
  job.wait(seconds(9));
  CHECK(job.started().empty());
  job.wait(seconds(1));
  CHECK(job.started().size() == 2);
}

TEST_CASE("director: a lost host's workers have ended") {
  Job job({}, {{"a", 2}, {"b", 2}});
  job.run_four();
  job.director.on_host_lost("b", "the connection has ended", job.time);
  job.collect();
  job.ready({1, 2}, 1, {3, 4});
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2});
  CHECK(job.started().empty());
  job.wait(seconds(1));
  CHECK(job.started().size() == 2);
}

TEST_CASE("director: an epoch that hosts could not begin drops the host that misses most") {
  Job job({}, {{"a", 2}, {"b", 1}, {"c", 1}});
  job.run_four();
  const auto cut = [&](WorkerId id, std::vector<WorkerId> suspects, EpochId last) {
    job.ready(id, after(last, last == 1, std::move(suspects)));
  };
  cut(1, {3}, 1);
  cut(2, {3}, 1);
  cut(3, {1}, 1);
  cut(4, {3}, 1);
  CHECK(job.epoch().size() == 4);  // it may have been a moment's failure
  cut(1, {3}, 2);
  cut(2, {3}, 2);
  cut(3, {1}, 2);
  cut(4, {3}, 2);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 4});
  const auto stops = job.take<StopWorker>();
  REQUIRE(stops.size() == 1);
  CHECK(stops[0].worker == 3);
}

TEST_CASE("director: the job is over when all have ended after one has finished") {
  Job job;
  job.run_four();
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 2, 3, 4}) {
    job.director.on_finished(id, job.time);
    job.collect();
  }
  CHECK_FALSE(job.director.over());
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 2, 3, 4}) job.end(id, {0, ""});
  CHECK(job.director.over());
  CHECK(job.director.exit_status() == 0);
  CHECK(job.started().empty());
}

TEST_CASE("director: nobody joins a job that has finished") {
  Job job;
  job.run_four();
  job.end(2, kKilled);
  job.ready({1, 3, 4}, 1);
  CHECK(job.epoch().size() == 3);
  job.director.on_finished(1, job.time);
  job.collect();
  CHECK(job.take<StopWorker>().size() == 1);  // worker 5, which still starts
  job.end(5, kKilled);
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 3, 4}) job.end(id, {0, ""});
  CHECK(job.director.over());
  CHECK(job.director.exit_status() == 0);
}

TEST_CASE("director: a failure after another worker has finished is the job's") {
  Job job;
  job.run_four();
  job.director.on_finished(1, job.time);
  job.end(2, kKilled);
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 3, 4}) job.end(id, {0, ""});
  CHECK(job.director.over());
  CHECK(job.director.exit_status() == 137);
}

TEST_CASE("director: epochs beyond the reset limit fail the job") {
  DirectorOptions options;
  options.reset_limit = 1;
  Job job(options);
  job.run_four();
  job.end(4, kKilled);
  job.ready({1, 2, 3}, 1);
  CHECK(job.epoch().size() == 3);
  job.end(3, kKilled);
  job.ready({1, 2}, 2);
  const auto failure = job.failure();
  REQUIRE(failure);
  CHECK(failure->text.find("the job was reset 1 times (--reset-limit)") == 0);
}

TEST_CASE("director: events of unknown workers change nothing") {
  Job job;
  job.run_four();
  job.ready(77);
  job.end(77, kKilled);
  job.director.on_holds(77);
  job.director.on_leaving(77, job.time);
  job.director.on_finished(77, job.time);
  job.collect();
  CHECK(job.all.empty());
  CHECK_FALSE(job.director.over());
}

}  // namespace
}  // namespace ronde::elastic
