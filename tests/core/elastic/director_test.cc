#include "tests/core/elastic/director_job.h"

namespace ronde::elastic {
namespace {

TEST_CASE("director: the first epoch begins when all workers that started are ready") {
  DirectorJob job;
  CHECK(job.started().size() == 4);
  for (const WorkerId id : std::initializer_list<WorkerId>{3, 1, 4}) job.ready(id);
  CHECK(job.epoch().empty());
  job.ready(2);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 3, 4});
}

TEST_CASE("director: a first epoch goes without workers that never become ready") {
  DirectorOptions options;
  options.min_workers = 2;
  DirectorJob job(options);
  job.ready(1);
  job.ready(2);
  CHECK(job.epoch().empty());
  CHECK(job.director.next_deadline(job.time) == job.time + options.start_timeout);
  job.wait(options.start_timeout);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2});
}

TEST_CASE("director: after a death the others go on at once, in their order") {
  DirectorJob job;
  job.run_four();
  job.end(2, kKilled);
  CHECK(job.started() == std::vector<WorkerId>{5});
  job.ready({4, 1}, 1, {2});
  CHECK(job.epoch().empty());
  job.ready({3}, 1, {2});
  CHECK(job.epoch() == std::vector<WorkerId>{1, 3, 4});
  CHECK(job.director.epoch() == 2);
}

TEST_CASE("director: the members of an epoch that cannot begin any more are told so, once") {
  DirectorJob job;
  job.run_four();
  job.end(2, kKilled);
  const auto ends = job.take<SendVoid>();
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].workers == std::vector<WorkerId>{1, 3, 4});
  CHECK(ends[0].note.epoch == 1);
  CHECK(ends[0].note.why == "worker 2 was killed by signal 9 (Killed)");
  job.end(3, kKilled);
  CHECK(job.take<SendVoid>().empty());
  job.ready({1, 4}, 1, {2});
  REQUIRE(job.epoch() == std::vector<WorkerId>{1, 4});
  job.end(1, kKilled);
  REQUIRE(job.take<SendVoid>().size() == 1);
}

TEST_CASE("director: who misses others in an epoch with a death says nothing of the hosts") {
  DirectorJob job({}, {{"a", 1}, {"b", 1}, {"c", 1}});
  CHECK(job.started().size() == 3);
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 2, 3}) job.ready(id);
  REQUIRE(job.epoch() == std::vector<WorkerId>{1, 2, 3});
  job.end(3, kKilled);
  job.ready(1, after(1, false, {2}));  // worker 2 has left the rendezvous before
  job.ready(2, after(1, false, {}));
  CHECK(job.take<StopWorker>().empty());
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2});
}

TEST_CASE("director: an epoch that has begun and ends by itself is not void") {
  DirectorJob job;
  job.run_four();
  job.ready({1, 2, 3, 4}, 1);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 3, 4});
  CHECK(job.take<SendVoid>().empty());
}

TEST_CASE("director: who computes is waited for") {
  DirectorJob job;
  job.run_four();
  job.end(2, kKilled);
  job.ready({1, 3}, 1, {2});
  job.wait(std::chrono::minutes(30));
  CHECK(job.epoch().empty());
  CHECK(job.take<StopWorker>().empty());
  job.ready({4}, 1, {2});
  CHECK(job.epoch() == std::vector<WorkerId>{1, 3, 4});
}

TEST_CASE("director: people are told for whom an epoch waits") {
  DirectorJob job;
  job.run_four();
  job.end(2, kKilled);
  job.ready({1, 3}, 1, {2});
  CHECK(job.take<Report>().empty());
  CHECK(job.director.next_deadline(job.time) == job.time + EpochWatch::kPatience);
  job.wait(EpochWatch::kPatience);
  const auto reports = job.take<Report>();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].text.find("worker 4 has not noticed for 10 s") != std::string::npos);
  job.wait(seconds(30));
  CHECK(job.take<Report>().empty());
}

TEST_CASE("director: a worker that is stopped for too long is killed, and the others go on") {
  DirectorJob job;
  job.run_four();
  job.end(2, kKilled);
  job.ready({1, 3}, 1, {2});
  job.director.on_frozen(4, seconds(60), job.time);
  job.collect();
  const auto stops = job.take<StopWorker>();
  REQUIRE(stops.size() == 1);
  CHECK(stops[0].worker == 4);
  const auto reports = job.take<Report>();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].text.find("worker 4 has been stopped for 60 s") == 0);
  job.ready({4}, 1);  // it goes on after all
  CHECK(job.epoch().empty());
  job.end(4, kKilled);
  const auto begun = job.take<BeginEpoch>();
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].workers.size() == 2);
  CHECK(begun[0].why.find("worker 4 has been stopped") == 0);
  job.director.on_frozen(4, seconds(60), job.time);
  job.collect();
  CHECK(job.take<StopWorker>().empty());
}

TEST_CASE("director: a worker that freezes while it finishes makes the job fail") {
  DirectorJob job;
  job.run_four();
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 2, 3, 4}) {
    job.director.on_finished(id, job.time);
  }
  job.director.on_frozen(3, seconds(60), job.time);
  job.collect();
  CHECK(job.take<StopWorker>().size() == 1);
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 2, 4}) job.end(id, {0, ""});
  job.end(3, kKilled);
  CHECK(job.director.over());
  CHECK(job.director.exit_status() == 137);
}

TEST_CASE("director: a joiner ends the epoch at its next commit, and comes last") {
  DirectorJob job;
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
  DirectorJob job;
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
  DirectorJob job;
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
  DirectorJob job;
  job.run_four();
  job.ready({1, 2}, 1, {4});
  CHECK(job.director.next_deadline(job.time) == job.time + EpochWatch::kPatience);
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
  DirectorJob job(options, {{"a", 2}});
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
  DirectorJob job;
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
  DirectorJob job;
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

TEST_CASE("director: if nobody holds the state, those that start may bring copies of it") {
  DirectorJob job;
  job.run_four();
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 2, 3, 4}) job.end(id, kKilled);
  const std::vector<WorkerId> fresh = job.started();
  REQUIRE(fresh.size() == 4);
  job.ready(fresh[0]);
  CHECK_FALSE(job.failure());
  for (int i = 1; i < 3; ++i) job.ready(fresh[static_cast<std::size_t>(i)], resumable());
  CHECK(job.epoch().empty());
  SUBCASE("the last one becomes ready") {
    job.ready(fresh[3], resumable());
    CHECK(job.epoch() == fresh);
  }
  SUBCASE("the last one never does") {
    job.wait(job.director.next_deadline(job.time) - job.time);
    CHECK(job.epoch() == std::vector<WorkerId>(fresh.begin(), fresh.end() - 1));
  }
}

TEST_CASE("director: a joiner without the state never comes before those that hold it") {
  DirectorJob job;
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

TEST_CASE("director: events of unknown workers change nothing") {
  DirectorJob job;
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
