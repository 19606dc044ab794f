#include "core/protocol/deadlock_detector.h"

#include <doctest/doctest.h>

#include <atomic>

namespace ronde {
namespace {

using std::chrono::seconds;

TimePoint after(int second) { return TimePoint{} + seconds(second); }

Request blocking(BlocksUntilDone blocks) {
  Request request;
  request.name = "w";
  request.blocks = blocks;
  return request;
}

StallFact lacking(const std::string& name, int missing, const std::string& blocked_in) {
  return {
      {name, 0}, 0, {missing}, 2'000, {missing, {blocked_in, 0}, Collective::kAllreduce, "", {}}};
}

TEST_CASE("DeadlockDetector: a blocking operation is checked once, after the watch time") {
  OwnOperations own;
  DeadlockDetector detector(0, seconds(1), own);
  const Request request = blocking(BlocksUntilDone::kEverything);
  own.add({"w", 0}, 1, request, after(5));
  detector.submitted(request, after(5));
  CHECK(detector.next_deadline() == after(6));
  CHECK(detector.on_time(after(5)).empty());
  CHECK(detector.on_time(after(6)).size() == 1);
  CHECK(detector.on_time(after(9)).empty());
  CHECK(detector.next_deadline() == kForever);
}

TEST_CASE("DeadlockDetector: a declared wait blocks its rank until it is cleared") {
  OwnOperations own;
  DeadlockDetector detector(0, seconds(1), own);
  own.add({"w", 0}, 1, blocking(BlocksUntilDone::kNothing), after(5));
  const auto blocked = std::make_shared<std::atomic<bool>>(true);
  CHECK(detector.declare_blocked(std::vector<std::uint64_t>{1}, blocked).size() == 1);
  std::vector<StallFact> facts{{{"v", 0}, -1, {0}, 0, {}}};
  detector.complete_facts(facts, {{"v", 0}});
  CHECK(facts[0].blocked.key == OpKey{"w", 0});
  blocked->store(false);
  detector.complete_facts(facts, {{"v", 0}});
  CHECK(facts[0].blocked.rank < 0);
}

TEST_CASE("DeadlockDetector: a cycle fails once all of it has been asked about") {
  const OwnOperations own;
  DeadlockDetector detector(0, seconds(1), own);
  detector.query_began({{"a", 0}});
  std::vector<StallFact> facts{lacking("a", 1, "b")};
  CHECK(detector.examine(facts, after(6)).ask.size() == 2);
  detector.query_began({{"a", 0}, {"b", 0}});
  facts = {lacking("a", 1, "b"), lacking("b", 0, "a")};
  const auto found = detector.examine(facts, after(7));
  CHECK(found.failures.size() == 2);
  CHECK(found.failures[0].code == Code::kMismatch);
  CHECK(facts.empty());
}

}  // namespace
}  // namespace ronde
