#include "ops/hierarchical/wire_thread.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("WireThread: jobs run in order, and each is waited for in its turn") {
  WireThread wire;
  const AbortToken abort;
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    wire.start([&order, i]() -> Status {
      order.push_back(i);
      return i == 1 ? Status(Code::kTimeout, "second") : Status();
    });
  }
  CHECK(wire.wait(abort).ok());
  CHECK(wire.wait(abort).message() == "second");
  CHECK(wire.wait(abort).ok());
  CHECK(order == std::vector<int>{0, 1, 2});
}

TEST_CASE("WireThread: an abort ends the wait, and drain() outlasts the job") {
  WireThread wire;
  AbortToken abort;
  std::atomic<bool> release = false;
  wire.start([&]() -> Status {
    while (!release) std::this_thread::yield();
    return {};
  });
  abort.abort(Status(Code::kRankFailure, "rank 1 is gone"));
  CHECK(wire.wait(abort).message() == "rank 1 is gone");
  release = true;
  wire.drain();
  wire.start([]() -> Status { return {}; });
  CHECK(wire.wait(AbortToken()).ok());
}

}  // namespace ronde
