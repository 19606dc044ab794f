#include "core/engine/peers/outbox.h"

#include <doctest/doctest.h>

#include "tests/core/engine/engine_parts.h"

namespace ronde {

TEST_CASE("Outbox: frames go out in the order added, with the header of their part") {
  test::EngineParts parts(0, 3);
  parts.outbox.add(1, {std::byte{7}});
  parts.outbox.add(2, {});
  parts.outbox.send(EnginePart::kExchange, 42);
  REQUIRE(parts.channel.sent.size() == 2);
  CHECK(parts.channel.sent[0].rank == 1);
  CHECK(parts.channel.sent[0].bytes ==
        test::frame_of(EnginePart::kExchange, 42, std::vector{std::byte{7}}));
  CHECK(parts.channel.sent[1].rank == 2);
  parts.outbox.send(EnginePart::kExchange, 42);
  CHECK(parts.channel.sent.size() == 2);
}

TEST_CASE("Outbox: an error of the channel is reported, but not that a rank is gone") {
  test::EngineParts parts;
  parts.channel.send_status = Status(Code::kRankFailure, "rank 1 died");
  parts.outbox.add(1, {});
  parts.outbox.send(EnginePart::kClock, 0);
  CHECK(parts.send_errors.empty());
  parts.channel.send_status = Status(Code::kInvalidArgument, "too long");
  parts.outbox.add(1, {});
  parts.outbox.send(EnginePart::kClock, 0);
  REQUIRE(parts.send_errors.size() == 1);
  CHECK(parts.send_errors[0].message() == "too long");
}

}  // namespace ronde
