
#include "core/base/bytes.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

namespace ronde {

TEST_CASE("hash64: the values of XXH3") {
  CHECK(hash64({}) == 0x2D06800538D394C2);
  CHECK(hash64(as_bytes("a")) == 0xE6C632B61E964E1F);
  CHECK(hash64(as_bytes("abc")) == 0x78AF5F94892F3950);
}

TEST_CASE("hash64: each length, and each bit of it, has a hash of its own") {
  std::set<std::uint64_t> seen;
  std::size_t count = 0;
  for (std::size_t length = 0; length < 100; ++length) {
    std::vector<std::byte> bytes(length);
    seen.insert(hash64(bytes));
    ++count;
    for (std::size_t bit = 0; bit < 8 * length; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      seen.insert(hash64(bytes));
      bytes[bit / 8] = std::byte{0};
      ++count;
    }
  }
  CHECK(seen.size() == count);
}

TEST_CASE("hash64: the place in memory does not matter") {
  const std::string text(100, 'x');
  const std::string shifted = "123" + text;
  CHECK(hash64(as_bytes(text)) == hash64(as_bytes(shifted).subspan(3)));
}

}  // namespace ronde
