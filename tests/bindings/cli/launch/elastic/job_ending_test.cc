#include "bindings/cli/launch/elastic/job_ending.h"

#include <doctest/doctest.h>
#include <signal.h>

namespace ronde {
namespace {

using std::chrono::milliseconds;

/// The ending of a job without agents.
struct Ending {
  LaunchOptions options;
  AgentPool agents{options, {}};
  Console console;
  int stops = 0, surrenders = 0;
  JobEnding ending{options,
                   agents,
                   console,
                   {.on_stop = [this] { ++stops; }, .on_give_up = [this] { ++surrenders; }}};
};

}  // namespace

TEST_CASE("job ending: a job that finishes has the exit status of its director") {
  Ending job;
  CHECK_FALSE(job.ending.begun());
  CHECK(job.ending.deadline() == kForever);
  job.ending.finish(3);
  CHECK(job.stops == 1);
  CHECK(job.ending.over());
  CHECK(job.ending.exit_status() == 3);
}

TEST_CASE("job ending: a signal ends the job, with its number") {
  Ending job;
  job.ending.stop(SIGTERM);
  CHECK(job.stops == 1);
  CHECK(job.ending.begun());
  CHECK_FALSE(job.ending.over());
  job.ending.fail(7, "too late");
  job.ending.finish(0);
  CHECK(job.ending.over());
  CHECK(job.ending.exit_status() == 128 + SIGTERM);
}

TEST_CASE("job ending: workers that do not end are killed, then given up") {
  Ending job;
  job.ending.stop(SIGTERM);
  const TimePoint kill = job.ending.deadline();
  CHECK(kill <= now() + job.options.grace);
  job.ending.let_a_worker_save();
  CHECK(job.ending.deadline() > kill);
  job.ending.insist(SIGTERM);
  CHECK(job.ending.deadline() <= now());
  job.ending.on_time(now());
  CHECK(job.surrenders == 0);
  CHECK(job.ending.deadline() != kForever);
  job.ending.on_time(job.ending.deadline());
  CHECK(job.surrenders == 1);
  CHECK(job.ending.deadline() == kForever);
}

}  // namespace ronde
