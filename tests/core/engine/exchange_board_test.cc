#include "core/engine/exchange_board.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("ExchangeBoard: a round is taken once all other ranks' values are there") {
  ExchangeBoard board;
  const std::vector<int> ranks = {0, 2, 5};
  CHECK_FALSE(board.take(9, 0, ranks, 2, "me").has_value());
  REQUIRE(board.on_frame(5, 9, ExchangeBoard::make_payload(0, "five")).ok());
  CHECK(board.missing(9, 0, ranks, 2) == std::vector<int>{0});
  REQUIRE(board.on_frame(0, 9, ExchangeBoard::make_payload(0, "")).ok());
  const auto values = board.take(9, 0, ranks, 2, "me");
  REQUIRE(values.has_value());
  CHECK(*values == std::vector<std::string>{"", "me", "five"});
  CHECK_FALSE(board.take(9, 0, ranks, 2, "me").has_value());
}

TEST_CASE("ExchangeBoard: rounds and keys do not mix") {
  ExchangeBoard board;
  const std::vector<int> ranks = {0, 1};
  REQUIRE(board.on_frame(1, 1, ExchangeBoard::make_payload(1, "later")).ok());
  CHECK_FALSE(board.take(1, 0, ranks, 0, "").has_value());
  CHECK_FALSE(board.take(2, 1, ranks, 0, "").has_value());
  CHECK(board.take(1, 1, ranks, 0, "").has_value());
}

TEST_CASE("ExchangeBoard: a frame without a round is refused") {
  ExchangeBoard board;
  CHECK(board.on_frame(1, 1, {}).code() == Code::kInvalidArgument);
}

}  // namespace ronde
