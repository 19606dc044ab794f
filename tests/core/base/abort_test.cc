#include "core/base/abort.h"

#include <doctest/doctest.h>

#include <thread>

namespace ronde {

TEST_CASE("AbortToken: the first reason stays and listeners are called once") {
  AbortToken token;
  int calls = 0;
  token.listen([&] { ++calls; });
  const int removed = token.listen([&] { calls += 100; });
  token.unlisten(removed);
  CHECK_FALSE(token.aborted());
  CHECK(token.status().ok());
  token.abort(Status(Code::kRankFailure, "first"));
  token.abort(Status(Code::kAborted, "second"));
  CHECK(token.aborted());
  CHECK(token.status().message() == "first");
  CHECK(calls == 1);
}

TEST_CASE("AbortToken: a listener that comes late is called at once") {
  AbortToken token;
  token.abort(Status(Code::kAborted, "gone"));
  int calls = 0;
  token.listen([&] { ++calls; });
  CHECK(calls == 1);
}

TEST_CASE("AbortToken: poll() runs the check of its own thread, as long as that lives") {
  AbortToken token;
  int checks = 0;
  {
    const WaitCheck check(token, [&] {
      if (++checks == 2) token.abort(Status(Code::kInterrupted, "by the check"));
    });
    std::thread([&] { CHECK_FALSE(token.poll()); }).join();
    CHECK(checks == 0);
    CHECK_FALSE(token.poll());
    CHECK(token.poll());
  }
  CHECK(token.poll());
  CHECK(checks == 2);
  CHECK(token.status().message() == "by the check");
}

}  // namespace ronde
