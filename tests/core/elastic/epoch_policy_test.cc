#include "core/elastic/epoch_policy.h"

#include <doctest/doctest.h>

namespace ronde::elastic {
namespace {

using State = RosterWorker::State;
using std::chrono::seconds;
using Kind = Verdict::Kind;

constexpr TimePoint kNow{seconds(100)};
const std::vector<std::string> kOneHost{"a"};

Roster ready(int count, bool holds) {
  Roster workers;
  for (int i = 0; i < count; ++i) {
    RosterWorker& worker = *workers.find(workers.add("a"));
    worker.state = State::kReady;
    worker.holds_state = holds;
  }
  return workers;
}

Verdict judge(EpochPolicy& policy, Roster& workers, const JobFacts& job, TimePoint time = kNow) {
  return policy.judge(workers, policy.takers(workers, kOneHost), job, time);
}

TEST_CASE("epoch policy: begins with enough workers, with no more than there may be") {
  EpochPolicy policy({.min_workers = 2, .max_workers = 3});
  Roster workers = ready(4, true);
  CHECK(judge(policy, workers, {}).kind == Kind::kBegin);
  CHECK(policy.takers(workers, kOneHost).size() == 3);
}

TEST_CASE("epoch policy: waits for more, says so once, and fails after the elastic timeout") {
  EpochPolicy policy({.min_workers = 2, .elastic_timeout = seconds(10)});
  Roster workers = ready(1, true);
  const Verdict first = judge(policy, workers, {.epoch = 1});
  CHECK(first.kind == Kind::kWait);
  CHECK(first.text == "waiting for 1 worker more, up to 10 s: 1 worker of at least 2 ready");
  CHECK(judge(policy, workers, {.epoch = 1}).text.empty());
  CHECK(policy.next_deadline(kNow) == kNow + seconds(10));
  CHECK(judge(policy, workers, {.epoch = 1}, kNow + seconds(10)).kind == Kind::kFail);
}

TEST_CASE("epoch policy: a state that nobody holds fails the job, once no copies can come") {
  EpochPolicy policy({.start_timeout = seconds(5)});
  Roster workers = ready(1, false);
  const JobFacts job{.epoch = 1, .state_exists = true, .last_failure = {137, "worker 1 died"}};
  const WorkerId starting = workers.add("a");
  CHECK(judge(policy, workers, job).kind == Kind::kWait);
  CHECK(judge(policy, workers, job, kNow + seconds(5)).kind == Kind::kFail);
  workers.remove(starting);
  const Verdict lost = judge(policy, workers, job);
  CHECK(lost.kind == Kind::kFail);
  CHECK(lost.exit_status == 137);
  workers.find(1)->ready.can_resume = true;
  CHECK(judge(policy, workers, job).kind == Kind::kBegin);
}

TEST_CASE("epoch policy: newer copies than those of ready workers are waited for") {
  EpochPolicy policy({.elastic_timeout = seconds(600), .start_timeout = seconds(5)});
  Roster workers = ready(1, false);
  RosterWorker& worker = *workers.find(1);
  worker.ready.can_resume = true;
  worker.inherited = 10;
  JobFacts job{.epoch = 1, .state_exists = true, .copy_to_come = 50};
  CHECK(judge(policy, workers, job).kind == Kind::kWait);
  CHECK(judge(policy, workers, job, kNow + seconds(599)).kind == Kind::kWait);  // its host pauses
  SUBCASE("they never come") {
    CHECK(judge(policy, workers, job, kNow + seconds(600)).kind == Kind::kBegin);
  }
  SUBCASE("they come") {
    job.copy_to_come = kNoCopy;
    workers.add("a");
    const TimePoint start = kNow + seconds(599);
    CHECK(judge(policy, workers, job, start).kind == Kind::kWait);
    CHECK(policy.next_deadline(start) == start + seconds(1));
  }
  SUBCASE("those of a ready worker are as new") {
    worker.inherited = 50;
    CHECK(judge(policy, workers, job).kind == Kind::kBegin);
  }
}

TEST_CASE("epoch policy: the first epoch waits for starters, one after a failure does not") {
  EpochPolicy policy({.start_timeout = seconds(5)});
  Roster workers = ready(1, true);
  RosterWorker& starting = *workers.find(workers.add("a"));
  policy.on_first_hosts(kNow);
  CHECK(policy.awaits_starters(workers, {}, kNow));
  CHECK_FALSE(policy.awaits_starters(workers, {}, kNow + seconds(5)));
  CHECK_FALSE(policy.awaits_starters(workers, {.epoch = 1}, kNow));
  starting.awaited = true;
  CHECK(policy.awaits_starters(workers, {.epoch = 1}, kNow));
  CHECK_FALSE(policy.awaits_starters(workers, {.epoch = 1, .cause = "worker 1 died"}, kNow));
}

TEST_CASE("epoch policy: epochs beyond the reset limit fail the job") {
  EpochPolicy policy({.reset_limit = 1});
  Roster workers = ready(1, true);
  CHECK(judge(policy, workers, {.epoch = 1}).kind == Kind::kBegin);
  CHECK(judge(policy, workers, {.epoch = 2}).kind == Kind::kFail);
}

}  // namespace
}  // namespace ronde::elastic
