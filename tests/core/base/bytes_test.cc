
#include "core/base/bytes.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

namespace ronde {

TEST_CASE("hash64: the values of XXH64") {
  CHECK(hash64({}) == 0xEF46DB3751D8E999);
  CHECK(hash64(as_bytes("a")) == 0xD24EC4F1A98C6E5B);
  CHECK(hash64(as_bytes("abc")) == 0x44BC2CF5AD770999);
  CHECK(hash64(as_bytes("Nobody inspects the spammish repetition")) == 0xFBCEA83C8A378BF1);
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
