#include <doctest/doctest.h>

#include "bindings/cli/launch/elastic/workers.h"

namespace ronde {
namespace {

constexpr TimePoint kDeath{};

}  // namespace

TEST_CASE("start queue: the first workers start at once") {
  StartQueue queue;
  CHECK(queue.deadline() == kForever);
  queue.add({1, "a"}, true, kDeath);
  queue.add({2, "a"}, true, kDeath);
  CHECK(queue.due(kDeath).size() == 2);
  CHECK(queue.due(kDeath + std::chrono::milliseconds(1)).empty());
}

TEST_CASE("start queue: later ones start after the survivors' epoch, or when it takes long") {
  StartQueue queue;
  queue.add({5, "a"}, false, kDeath);
  CHECK(queue.due(kDeath + std::chrono::milliseconds(50)).empty());
  queue.on_epoch(kDeath + std::chrono::milliseconds(51));
  CHECK(queue.deadline() == kDeath + std::chrono::milliseconds(51) + StartQueue::kAfterEpoch);
  CHECK(queue.due(queue.deadline()).front().worker == 5);
  queue.add({6, "a"}, false, kDeath);
  queue.add({7, "a"}, false, kDeath + std::chrono::milliseconds(50));
  CHECK(queue.due(kDeath + StartQueue::kLongest).size() == 2);
}

TEST_CASE("start queue: workers that are not wanted any more do not start") {
  StartQueue queue;
  queue.add({5, "a"}, false, kDeath);
  queue.add({6, "b"}, false, kDeath);
  queue.add({7, "c"}, false, kDeath);
  CHECK(queue.remove(5));
  CHECK_FALSE(queue.remove(5));
  queue.remove_host("b");
  const auto due = queue.due(kDeath + StartQueue::kLongest);
  REQUIRE(due.size() == 1);
  CHECK(due.front().worker == 7);
}

}  // namespace ronde
