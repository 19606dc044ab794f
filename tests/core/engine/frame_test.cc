#include "core/engine/frame.h"

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

}  // namespace ronde
