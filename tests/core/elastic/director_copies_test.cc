// The director, where no worker holds the state but agents of hosts keep copies of it.
#include "tests/core/elastic/director_job.h"

namespace ronde::elastic {
namespace {

/// One holder of the state, worker 1, and a joiner without it, worker 3, in epoch 3. The first
/// death has been answered at once, so the next one makes the host pause.
void let_a_joiner_come(DirectorJob& job, WorkerId joiner) {
  job.end(2, killed_at(10));
  REQUIRE(job.started() == std::vector<WorkerId>{joiner});
  job.director.on_started(joiner, 10);
  job.ready({1}, 1, {2});
  REQUIRE(job.epoch() == std::vector<WorkerId>{1});
  job.wait(seconds(1));
  job.ready(joiner, resumable());
  job.ready({1}, 2);
  REQUIRE(job.epoch() == std::vector<WorkerId>{1, joiner});
}

DirectorJob job_of_two(DirectorOptions options = {}, std::vector<HostPlaces> hosts = {{"a", 2}}) {
  DirectorJob job(options, std::move(hosts));
  REQUIRE(job.started() == std::vector<WorkerId>{1, 2});
  job.ready(1);
  job.ready(2);
  REQUIRE(job.epoch() == std::vector<WorkerId>{1, 2});
  job.holds({1, 2});
  return job;
}

TEST_CASE("director: the last holder dies in a newcomer's sync, and its host pauses") {
  DirectorJob job = job_of_two();
  let_a_joiner_come(job, 3);
  job.end(1, killed_at(20));
  job.ready(3, without_state(3));
  CHECK_FALSE(job.failure());
  CHECK(job.epoch().empty());
  CHECK(job.started().empty());  // the host pauses
  job.wait(job.director.next_deadline(job.time) - job.time);
  CHECK(job.started() == std::vector<WorkerId>{4});
  SUBCASE("its copies come") {
    job.bring(4, 20);
    CHECK(job.epoch() == std::vector<WorkerId>{4, 3});
    job.holds({3, 4});
    job.end(4, killed_at(30));
    job.ready({3}, 4);
    CHECK(job.epoch() == std::vector<WorkerId>{3});
  }
  SUBCASE("the one that brings them dies, too") {
    job.director.on_started(4, 20);
    job.end(4, killed_at(20));
    CHECK_FALSE(job.failure());
    job.wait(seconds(30));
    REQUIRE(job.started() == std::vector<WorkerId>{5});
    job.bring(5, 20);
    CHECK(job.epoch() == std::vector<WorkerId>{5, 3});
  }
  SUBCASE("its host is lost") {
    job.director.on_host_lost("a", "cut off", job.time);
    job.collect();
    CHECK_FALSE(job.failure());  // new workers may still come
  }
}

TEST_CASE("director: older copies of a ready worker do not win over newer ones") {
  DirectorJob job = job_of_two();
  job.end(2, killed_at(10));
  CHECK(job.started() == std::vector<WorkerId>{3});
  job.director.on_started(3, 10);
  job.wait(seconds(1));
  job.end(1, killed_at(50));
  job.ready(3, resumable());
  CHECK(job.epoch().empty());
  job.wait(seconds(1));
  REQUIRE(job.started() == std::vector<WorkerId>{4});
  job.bring(4, 50);
  CHECK(job.epoch() == std::vector<WorkerId>{4, 3});
}

/// All members, which hold the state, go on into the next epoch.
void go_on(DirectorJob& job, const std::vector<WorkerId>& members) {
  job.holds(members);
  job.ready(members, job.director.epoch());
}

TEST_CASE("director: a worker fetches the state from a blacklisted host, then leaves") {
  DirectorOptions options;
  options.pauses.policy = FailurePolicy::kBlacklist;
  DirectorJob job = job_of_two(options, {{"a", 1}, {"b", 1}});
  job.director.set_hosts({{"a", 1}, {"b", 1}, {"c", 1}}, job.time);
  job.collect();
  REQUIRE(job.started() == std::vector<WorkerId>{3});
  job.end(2, killed_at(10));
  job.ready({1}, 1);
  REQUIRE(job.epoch() == std::vector<WorkerId>{1});
  job.bring(3, kNoCopy);
  job.ready({1}, 2);
  REQUIRE(job.epoch() == std::vector<WorkerId>{1, 3});
  job.end(1, killed_at(20));
  const auto starts = job.take<StartWorker>();
  REQUIRE(starts.size() == 1);
  CHECK(starts[0].host == "a");  // host b has older copies
  job.ready(3, without_state(3));
  CHECK(job.epoch().empty());
  SUBCASE("it comes") {
    job.bring(4, 20);
    CHECK(job.epoch() == std::vector<WorkerId>{4, 3});
    (void)job.take<SendChange>();
    go_on(job, {3, 4});
    CHECK(job.epoch() == std::vector<WorkerId>{3});
    const auto dismissed = job.take<DismissWorker>();
    REQUIRE(dismissed.size() == 1);
    CHECK(dismissed[0].worker == 4);
    job.end(4, {0, ""});
    CHECK_FALSE(job.director.over());
    CHECK(job.started().empty());
  }
  SUBCASE("it dies again and again") {
    for (WorkerId id = 4; id <= 6; ++id) {
      job.director.on_started(id, 20);
      job.end(id, killed_at(20));
      CHECK_FALSE(job.failure());
      CHECK(job.started().empty());
      job.wait(job.director.next_deadline(job.time) - job.time);
      CHECK(job.started() == std::vector<WorkerId>{id + 1});
    }
    job.wait(options.elastic_timeout);
    const auto failure = job.failure();
    REQUIRE(failure);
    CHECK(failure->text.find("every worker that held the state has ended") == 0);
  }
}

TEST_CASE("director: a worker fetches the state though no more workers are wanted") {
  DirectorOptions options;
  options.max_workers = 2;
  DirectorJob job = job_of_two(options, {{"a", 1}, {"b", 1}, {"c", 1}});
  job.end(1, killed_at(10));
  REQUIRE(job.started() == std::vector<WorkerId>{3});
  job.ready({2}, 1);
  job.bring(3, 10);
  job.ready({2}, 2);
  go_on(job, {2, 3});
  (void)job.take<BeginEpoch>();
  job.end(2, killed_at(20));
  REQUIRE(job.started() == std::vector<WorkerId>{4});
  job.ready({3}, job.director.epoch());
  job.bring(4, 20);
  job.ready({3}, job.director.epoch());
  (void)job.take<BeginEpoch>();
  job.wait(seconds(1));
  job.end(3, killed_at(30));  // host a pauses: another one gets the place
  const auto starts = job.take<StartWorker>();
  REQUIRE(starts.size() == 2);
  CHECK(starts[0].host == "c");
  CHECK(starts[1].host == "a");
  job.ready(4, without_state(job.director.epoch()));
  job.bring(5, kNoCopy);
  CHECK(job.epoch().empty());
  job.bring(6, 30);
  CHECK(job.epoch() == std::vector<WorkerId>{6, 4});
  go_on(job, {6, 4});
  CHECK(job.epoch() == std::vector<WorkerId>{4, 5});
}

}  // namespace
}  // namespace ronde::elastic
