#include "core/engine/records/left_behind.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("LeftBehind: each lost rank is reported once in turn") {
  int reported = 0;
  LeftBehind left_behind([&] { ++reported; });
  CHECK(left_behind.status().ok());
  left_behind.note(Status(Code::kRankFailure, "rank 1 died"));
  left_behind.note(Status(Code::kRankFailure, "rank 1 died"));
  CHECK(reported == 1);
  left_behind.note(Status(Code::kRankFailure, "\"b\" waits").about({2, "host", 3}));
  left_behind.note(Status(Code::kRankFailure, "\"c\" waits").about({2, "host", 3}));
  CHECK(reported == 2);
  CHECK(left_behind.status().message() == "\"b\" waits");
}

}  // namespace ronde
