#include "core/engine/failure_frame.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("failure frame: code, message and rank come back") {
  const Status sent = Status(Code::kRankFailure, "rank 3 died").about({3, "node1", 42});
  Status received;
  REQUIRE(read_failure(make_failure(sent), received).ok());
  CHECK(received.code() == Code::kRankFailure);
  CHECK(received.message() == "rank 3 died");
  CHECK(received.failed_rank()->rank == 3);
  CHECK(received.failed_rank()->host == "node1");
  CHECK(received.failed_rank()->pid == 42);
  REQUIRE(read_failure(make_failure(Status(Code::kInternal, "x")), received).ok());
  CHECK_FALSE(received.failed_rank().has_value());
}

TEST_CASE("failure frame: truncated and senseless payloads are refused") {
  const auto good = make_failure(Status(Code::kInternal, "x").about({1, "host", 2}));
  Status received;
  for (std::size_t length = 0; length < 20; ++length) {
    CHECK_FALSE(read_failure(std::span(good).first(length), received).ok());
  }
  auto bad = good;
  bad[0] = std::byte{99};
  CHECK_FALSE(read_failure(bad, received).ok());
}

}  // namespace ronde
