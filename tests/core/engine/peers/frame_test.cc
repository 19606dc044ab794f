#include "core/engine/peers/frame.h"

#include <doctest/doctest.h>

#include "core/base/bytes.h"

namespace ronde {

TEST_CASE("frame: header and payload come back") {
  std::vector<std::byte> buffer;
  FrameHeader header;
  header.kind = EnginePart::kExchange;
  header.id = 77;
  const auto frame = make_frame(buffer, header, as_bytes("abc"));
  const auto read = read_header(frame);
  REQUIRE(read.has_value());
  CHECK(read->kind == EnginePart::kExchange);
  CHECK(read->id == 77);
  CHECK(as_text(frame.subspan(sizeof(FrameHeader))) == "abc");
}

TEST_CASE("frame: short frames and unknown kinds are refused") {
  std::vector<std::byte> buffer;
  FrameHeader header;
  header.kind = static_cast<EnginePart>(99);
  CHECK_FALSE(read_header(make_frame(buffer, header, {})).has_value());
  header.kind = EnginePart::kMessage;
  const auto frame = make_frame(buffer, header, {});
  CHECK_FALSE(read_header(frame.first(frame.size() - 1)).has_value());
}

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
