// The director where hosts change, and where workers are asked to leave.
#include "tests/core/elastic/director_job.h"

namespace ronde::elastic {
namespace {

TEST_CASE("director: workers whose host vanishes from the list leave at a commit") {
  DirectorJob job({}, {{"a", 2}, {"b", 2}});
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
  DirectorJob job;
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

TEST_CASE("director: a surplus worker that is asked to leave takes nobody's place") {
  DirectorJob job({}, {{"a", 4}});
  job.run_four();
  job.director.set_hosts({{"a", 1}}, job.time);
  job.director.on_leaving(4, job.time);
  job.collect();
  job.ready({1, 2, 3, 4}, 1);
  CHECK(job.epoch() == std::vector<WorkerId>{1});
}

TEST_CASE("director: new hosts get workers, up to the most that are wanted") {
  DirectorOptions options;
  options.max_workers = 5;
  DirectorJob job(options);
  job.run_four();
  job.director.set_hosts({{"a", 4}, {"b", 4}}, job.time);
  job.collect();
  const auto starts = job.take<StartWorker>();
  REQUIRE(starts.size() == 1);
  CHECK(starts[0].host == "b");
}

TEST_CASE("director: a worker that is asked to leave goes at the next commit and is not replaced") {
  DirectorJob job;
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
  DirectorJob job({}, {{"a", 1}});
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
  DirectorJob job(options, {{"a", 2}, {"b", 2}});
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

TEST_CASE("director: a blacklisted host is reported, and that none is left") {
  DirectorOptions options;
  options.pauses.policy = FailurePolicy::kBlacklist;
  DirectorJob job(options, {{"a", 2}, {"b", 2}});
  job.run_four();
  (void)job.take<Report>();
  job.end(3, kKilled);
  const auto first = job.take<Report>();
  REQUIRE(first.size() == 1);
  CHECK(first[0].text == "host b is blacklisted (--on-failure blacklist): its workers end");
  job.end(1, kKilled);
  const auto last = job.take<Report>();
  REQUIRE_FALSE(last.empty());
  CHECK(last[0].text ==
        "host a is blacklisted (--on-failure blacklist): its workers end; no host is "
        "left. --on-failure respawn replaces a failed worker instead");
}

TEST_CASE("director: the report of a blacklisted host has its cool-down") {
  DirectorOptions options;
  options.pauses = {FailurePolicy::kBlacklist, seconds(10), seconds(20)};
  DirectorJob job(options, {{"a", 2}, {"b", 2}});
  job.run_four();
  (void)job.take<Report>();
  job.end(3, kKilled);
  const auto reports = job.take<Report>();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].text.starts_with("host b is blacklisted for 10 s (--on-failure blacklist)"));
}

TEST_CASE("director: a blacklisted host's other workers leave with a suspect that was stopped") {
  DirectorOptions options;
  options.pauses.policy = FailurePolicy::kBlacklist;
  DirectorJob job(options, {{"a", 2}, {"b", 2}});
  for (WorkerId id = 1; id <= 4; ++id) job.ready(id);
  CHECK(job.epoch().size() == 4);
  job.ready({1, 2, 3}, 1, {4});  // 4 takes its time to end
  job.wait(seconds(2));
  CHECK(job.take<StopWorker>().size() == 1);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2});
}

/// Workers 1 and 2 of host "a" in their first epoch.
DirectorJob job_that_awaits_hosts() {
  DirectorOptions options;
  options.await_new_hosts = true;
  DirectorJob job(options, {{"a", 2}});
  job.ready(1);
  job.ready(2);
  CHECK(job.epoch().size() == 2);
  return job;
}

TEST_CASE(
    "director: as with Horovod, the epoch ends when hosts come, and the next waits for them") {
  DirectorJob job = job_that_awaits_hosts();
  job.director.set_hosts({{"a", 2}, {"b", 2}}, job.time);
  job.collect();
  const auto changes = job.take<SendChange>();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].note.change == Change::kAdded);
  ReadyNote changed = after(1, true, {});
  changed.why.clear();
  job.ready(1, changed);
  job.ready(2, changed);
  job.ready(3);
  CHECK(job.epoch().empty());
  SUBCASE("all have started") {
    job.ready(4);
    CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 3, 4});
  }
  SUBCASE("one does not start") {
    job.wait(DirectorOptions().start_timeout);
    CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 3});
    CHECK(job.take<SendChange>().empty());
  }
  SUBCASE("one ends") {
    job.end(4, kKilled);
    CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 3});
  }
}

TEST_CASE("director: after a failure nobody waits for hosts that come") {
  DirectorJob job = job_that_awaits_hosts();
  job.director.set_hosts({{"a", 2}, {"b", 1}}, job.time);
  job.collect();
  job.end(2, kKilled);
  job.ready({1}, 1, {2});
  CHECK(job.epoch() == std::vector<WorkerId>{1});
}

TEST_CASE("director: a lost host's workers have ended") {
  DirectorJob job({}, {{"a", 2}, {"b", 2}});
  job.run_four();
  job.director.on_host_lost("b", "the connection has ended", job.time);
  job.collect();
  job.ready({1, 2}, 1, {3, 4});
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2});
  CHECK(job.started().empty());
  job.wait(seconds(1));
  CHECK(job.started().size() == 2);
}

TEST_CASE("director: a host without workers is tried beside the epoch before it gets some") {
  DirectorJob job({}, {{"a", 2}, {"b", 1}, {"c", 1}});
  job.run_four();
  job.unreached = "c";
  job.director.on_host_lost("c", "cut off", job.time);
  job.collect();
  job.ready({1, 2, 3}, 1, {4});
  REQUIRE(job.epoch() == std::vector<WorkerId>{1, 2, 3});
  (void)job.take<Report>();
  for (int trial = 1; trial <= 3; ++trial) {
    job.wait(job.director.next_deadline(job.time) - job.time);
    const auto trials = job.take<TryHost>();
    REQUIRE(trials.size() == 1);
    CHECK(trials[0].host == "c");
    CHECK(trials[0].others == std::vector<std::string>{"a", "b"});
    job.wait(seconds(5));
    CHECK(job.take<TryHost>().empty());
    job.director.on_host_tried("c", "a does not reach 10.0.0.3:4000 (no answer)", job.time);
    job.collect();
    CHECK(job.take<Report>().size() == (trial == 1 ? 1 : 0));
  }
  CHECK(job.started().empty());
  CHECK(job.take<SendChange>().empty());
  job.unreached.clear();  // it is back
  job.wait(job.director.next_deadline(job.time) - job.time);
  CHECK(job.started() == std::vector<WorkerId>{5});
}

TEST_CASE("director: an epoch goes on when a host without members is lost") {
  DirectorJob job({}, {{"a", 2}, {"b", 2}});
  job.run_four();
  job.ready({1, 2}, 1, {3, 4});
  job.wait(EpochWatch::kGrace);
  REQUIRE(job.epoch() == std::vector<WorkerId>{1, 2});
  job.director.on_host_lost("b", "the connection has ended", job.time);
  job.wait(seconds(1));
  const std::vector<WorkerId> joiners = job.started();
  REQUIRE(joiners.size() == 2);
  for (const WorkerId id : joiners) job.ready(id);
  REQUIRE(job.take<SendChange>().size() == 1);
  job.ready({1, 2}, 2);
  CHECK(job.epoch().size() == 4);
}

TEST_CASE("director: hosts that lose each other are tried before the next epoch begins") {
  for (const bool is_cut : {true, false}) {
    CAPTURE(is_cut);
    DirectorJob job({}, {{"a", 2}, {"b", 2}});
    job.run_four();
    job.unreached = "b";
    job.ready({1, 2}, 1, {3});
    job.ready({3, 4}, 1, {1});
    CHECK(job.epoch().empty());
    const auto trials = job.take<TryHost>();
    REQUIRE(trials.size() == 1);
    CHECK(trials[0].host == "b");
    CHECK(trials[0].others == std::vector<std::string>{"a"});
    job.director.on_host_tried("b", is_cut ? "a does not reach 10.0.0.2:4000 (no answer)" : "",
                               job.time);
    job.collect();
    CHECK(job.epoch().size() == (is_cut ? 2 : 4));
    CHECK(job.take<StopWorker>().size() == (is_cut ? 2 : 0));
    CHECK(job.take<Report>().size() == (is_cut ? 1 : 0));
  }
}

TEST_CASE("director: an epoch that hosts could not begin drops the host that misses most") {
  DirectorJob job({}, {{"a", 2}, {"b", 1}, {"c", 1}});
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

}  // namespace
}  // namespace ronde::elastic
