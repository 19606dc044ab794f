#include "core/engine/peers/key_value_exchange.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("KeyValueExchange: a round is taken once all other ranks' values are there") {
  KeyValueExchange exchange;
  const std::vector<int> ranks = {0, 2, 5};
  CHECK_FALSE(exchange.take(9, 0, ranks, 2, "me").has_value());
  REQUIRE(exchange.on_frame(5, 9, KeyValueExchange::make_payload(0, "five")).ok());
  CHECK(exchange.missing(9, 0, ranks, 2) == std::vector<int>{0});
  REQUIRE(exchange.on_frame(0, 9, KeyValueExchange::make_payload(0, "")).ok());
  const auto values = exchange.take(9, 0, ranks, 2, "me");
  REQUIRE(values.has_value());
  CHECK(*values == std::vector<std::string>{"", "me", "five"});
  CHECK_FALSE(exchange.take(9, 0, ranks, 2, "me").has_value());
}

TEST_CASE("KeyValueExchange: rounds and keys do not mix") {
  KeyValueExchange exchange;
  const std::vector<int> ranks = {0, 1};
  REQUIRE(exchange.on_frame(1, 1, KeyValueExchange::make_payload(1, "later")).ok());
  CHECK_FALSE(exchange.take(1, 0, ranks, 0, "").has_value());
  CHECK_FALSE(exchange.take(2, 1, ranks, 0, "").has_value());
  CHECK(exchange.take(1, 1, ranks, 0, "").has_value());
}

TEST_CASE("KeyValueExchange: a frame without a round is refused") {
  KeyValueExchange exchange;
  CHECK(exchange.on_frame(1, 1, {}).code() == Code::kInvalidArgument);
}

}  // namespace ronde
