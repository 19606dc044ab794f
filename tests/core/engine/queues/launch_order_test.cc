#include "core/engine/queues/launch_order.h"

#include <doctest/doctest.h>

#include <future>
#include <vector>

namespace ronde {
namespace {

/// The result of a turn's wait, if it returns.
std::future<Result<bool>> waiting(LaunchOrder::TurnPtr turn, const AbortToken& abort) {
  return std::async(std::launch::async,
                    [turn = std::move(turn), &abort] { return turn->wait(abort); });
}

}  // namespace

TEST_CASE("LaunchOrder: turns come in the order of their places, in any order of requests") {
  const AbortToken abort;
  LaunchOrder order;
  QueueTurns one(order);
  QueueTurns other(order);
  auto late = one.take();
  auto soon = other.take();
  auto waits = waiting(late, abort);
  other.place_next();
  one.place_next();
  CHECK(soon->wait(abort).value());
  soon.reset();
  CHECK(waits.get().value());
}

TEST_CASE("LaunchOrder: a place may come before its bundle, and holds up what is behind it") {
  const AbortToken abort;
  LaunchOrder order;
  QueueTurns one(order);
  QueueTurns other(order);
  one.place_next();
  auto behind = other.take();
  other.place_next();
  auto waits = waiting(behind, abort);
  auto first = one.take();
  CHECK(first->wait(abort).value());
  first.reset();
  CHECK(waits.get().value());
}

TEST_CASE("LaunchOrder: a bundle that ends without its turn gives way to nobody else's place") {
  const AbortToken abort;
  LaunchOrder order;
  QueueTurns queue(order);
  auto staged = queue.take();
  auto next = queue.take();
  staged.reset();
  queue.place_next();
  queue.place_next();
  CHECK(next->wait(abort).value());
}

TEST_CASE("LaunchOrder: what has no place when the order ends never has one") {
  const AbortToken abort;
  LaunchOrder order;
  QueueTurns queue(order);
  auto placed = queue.take();
  auto waits = waiting(queue.take(), abort);
  queue.place_next();
  queue.close();
  CHECK(placed->wait(abort).value());
  CHECK_FALSE(waits.get().value());
  CHECK_FALSE(queue.take()->wait(abort).value());
}

TEST_CASE("LaunchOrder: an abort ends the wait for a turn") {
  AbortToken abort;
  LaunchOrder order;
  QueueTurns queue(order);
  auto waits = waiting(queue.take(), abort);
  abort.abort({Code::kRankFailure, "rank 1 died"});
  CHECK(waits.get().status().code() == Code::kRankFailure);
}

}  // namespace ronde
