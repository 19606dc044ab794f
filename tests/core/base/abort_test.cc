#include "core/base/abort.h"

#include <doctest/doctest.h>

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

}  // namespace ronde
