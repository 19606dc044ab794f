// The director: how a job ends, well or not.
#include "tests/core/elastic/director_job.h"

namespace ronde::elastic {
namespace {

TEST_CASE("director: an exception in the first epoch's start ends the job") {
  DirectorJob job;
  job.end(3, kException);
  const auto failure = job.failure();
  REQUIRE(failure);
  CHECK(failure->exit_status == 1);
  CHECK(failure->text == "worker 3 exited with status 1");
}

TEST_CASE("director: an exception on all workers ends the job") {
  DirectorJob job;
  job.run_four();
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 2, 3}) job.end(id, kException);
  CHECK_FALSE(job.failure());
  job.end(4, kException);
  CHECK(job.failure());
}

TEST_CASE("director: the job is over when all have ended after one has finished") {
  DirectorJob job;
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

TEST_CASE("director: workers that still start finish a job whose program never calls init()") {
  DirectorJob job;
  job.end(1, {0, ""});
  CHECK(job.take<StopWorker>().empty());
  CHECK_FALSE(job.director.over());
  for (const WorkerId id : std::initializer_list<WorkerId>{2, 3, 4}) job.end(id, {0, ""});
  CHECK(job.director.over());
  CHECK(job.director.exit_status() == 0);
}

TEST_CASE("director: a member that exits with status 0 is reported") {
  DirectorJob job;
  job.run_four();
  (void)job.take<Report>();
  job.end(2, {0, "(pid 7) exited with status 0"});
  const auto reports = job.take<Report>();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].text == "worker 2 (pid 7) exited with status 0, which counts as finished");
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 3, 4}) job.end(id, {0, ""});
  CHECK(job.take<Report>().empty());
  CHECK(job.director.exit_status() == 0);
}

TEST_CASE("director: a member that exits with status 0 while others need it makes the job fail") {
  DirectorJob job;
  job.run_four();
  const WorkerEnd quiet{0, "(pid 7) exited with status 0"};
  SUBCASE("before they notice") {
    job.end(2, quiet);
    job.ready({1}, 1);
  }
  SUBCASE("after one has noticed") {
    job.ready({1}, 1);
    job.end(2, quiet);
  }
  const auto failure = job.failure();
  REQUIRE(failure);
  CHECK(failure->exit_status == 1);
  CHECK(failure->text ==
        "worker 2 (pid 7) exited with status 0 before the others of its epoch had finished");
  const auto dismissed = job.take<DismissWorker>();
  REQUIRE(dismissed.size() == 1);
  CHECK(dismissed[0].note.failed);
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 3, 4}) job.end(id, kException);
  CHECK(job.director.over());
  CHECK(job.director.exit_status() == 1);
}

TEST_CASE("director: members that fail after one has exited with status 0 make the job fail") {
  DirectorJob job;
  job.run_four();
  job.end(2, {0, ""});
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 3, 4}) job.end(id, kException);
  CHECK(job.director.over());
  CHECK(job.director.exit_status() == 1);
}

TEST_CASE("director: a worker whose function has returned is dismissed without an error") {
  DirectorJob job;
  job.run_four();
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 3, 4}) {
    job.director.on_finished(id, job.time);
  }
  job.ready({2}, 1);  // it did not hear of their end
  const auto dismissed = job.take<DismissWorker>();
  REQUIRE(dismissed.size() == 1);
  CHECK_FALSE(dismissed[0].note.failed);
  CHECK_FALSE(job.failure());
}

TEST_CASE("director: no epoch follows for workers whose functions have returned") {
  DirectorJob job;
  job.run_four();
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 2, 3, 4}) {
    job.director.on_finished(id, job.time);
  }
  job.ready({2}, 1);  // a later function has failed
  const auto dismissed = job.take<DismissWorker>();
  REQUIRE(dismissed.size() == 1);
  CHECK(dismissed[0].note.failed);
  for (const WorkerId id : std::initializer_list<WorkerId>{1, 3, 4}) job.end(id, {0, ""});
  job.end(2, kException);
  CHECK(job.director.exit_status() == 1);
}

TEST_CASE("director: workers that exit with status 0 before they take part finish nothing") {
  DirectorJob job;
  job.run_four();
  job.end(4, kKilled);
  CHECK(job.started() == std::vector<WorkerId>{5});
  job.end(5, {0, "exited with status 0"});
  job.ready({1, 2, 3}, 1);
  CHECK(job.epoch() == std::vector<WorkerId>{1, 2, 3});
  job.wait(seconds(1));
  CHECK(job.started() == std::vector<WorkerId>{6});
  CHECK_FALSE(job.director.over());
}

TEST_CASE("director: nobody joins a job that has finished") {
  DirectorJob job;
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
  DirectorJob job;
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
  DirectorJob job(options);
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

}  // namespace
}  // namespace ronde::elastic
