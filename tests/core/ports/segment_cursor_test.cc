#include "core/ports/segment_cursor.h"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "core/base/bytes.h"

namespace ronde {
namespace {

std::byte* mutable_bytes(std::string& text) { return reinterpret_cast<std::byte*>(text.data()); }

TEST_CASE("reading and writing cross segments of any size") {
  const std::string first = "abc", second = "defgh";
  std::string out1(3, '.'), out2(5, '.');
  const std::array<Segment, 3> segments = {
      Segment{as_bytes(first).data(), mutable_bytes(out1), 3},
      Segment{nullptr, nullptr, 0},
      Segment{as_bytes(second).data(), mutable_bytes(out2), 5},
  };
  SegmentCursor cursor(segments);
  std::string all;
  for (const std::size_t step : {2U, 4U, 2U}) {
    std::string piece(step, '.');
    cursor.read({mutable_bytes(piece), step});
    cursor.write(as_bytes(piece));
    all += piece;
  }
  CHECK(all == "abcdefgh");
  CHECK(out1 == "abc");
  CHECK(out2 == "defgh");
}

TEST_CASE("a null input reads as zeros and a null output swallows") {
  std::string out(2, '.');
  const std::string in = "xy";
  const std::array<Segment, 2> segments = {
      Segment{nullptr, mutable_bytes(out), 2},
      Segment{as_bytes(in).data(), nullptr, 2},
  };
  SegmentCursor cursor(segments);
  std::string read(4, '.');
  cursor.read({mutable_bytes(read), 4});
  CHECK(read == std::string("\0\0xy", 4));
  cursor.write(as_bytes("1234"));
  CHECK(out == "12");
}

}  // namespace
}  // namespace ronde
