
#include "core/base/bytes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace ronde {
namespace {

using Block = std::vector<std::byte>;

std::uint64_t checksum_of(const Block& block) {
  Checksum sum;
  sum.add(block);
  return sum.value();
}

Block random_block(unsigned seed, std::size_t bytes = Checksum::kBlockBytes) {
  std::mt19937 random(seed);
  Block block(bytes);
  for (std::byte& each : block) each = static_cast<std::byte>(random());
  return block;
}

void flip(Block& block, std::size_t bit) { block[bit / 8] ^= std::byte{1} << (bit % 8); }

constexpr std::size_t kLineBits = 8 * Checksum::kLineBytes;

}  // namespace

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

TEST_CASE("Checksum: each bit of a block changes it, in zeros, ones and random bytes") {
  for (Block block : {Block(Checksum::kBlockBytes), Block(Checksum::kBlockBytes, std::byte{255}),
                      random_block(1), random_block(1, 1000)}) {
    std::set<std::uint64_t> seen = {checksum_of(block)};
    for (std::size_t bit = 0; bit < 8 * block.size(); ++bit) {
      flip(block, bit);
      seen.insert(checksum_of(block));
      flip(block, bit);
    }
    CHECK(seen.size() == 8 * block.size() + 1);
  }
}

TEST_CASE("Checksum: the same bit of two lines does not cancel") {
  for (Block block : {Block(Checksum::kBlockBytes), random_block(2)}) {
    const std::uint64_t right = checksum_of(block);
    std::size_t missed = 0;
    for (std::size_t bit = 0; bit < kLineBits; bit += 7) {
      for (std::size_t first = bit; first < 8 * block.size(); first += kLineBits) {
        flip(block, first);
        for (std::size_t second = first + kLineBits; second < 8 * block.size();
             second += kLineBits) {
          flip(block, second);
          if (checksum_of(block) == right) ++missed;
          flip(block, second);
        }
        flip(block, first);
      }
    }
    CHECK(missed == 0);
  }
}

TEST_CASE("Checksum: lines, blocks and bytes that change their places are found") {
  for (const bool pairs : {false, true}) {  // as of floats that are alike in a line
    Block block = random_block(3);
    for (std::size_t i = 0; pairs && i < block.size(); ++i) block[i] = block[i / 64 * 64 + i % 4];
    const std::uint64_t right = checksum_of(block);
    for (std::size_t a = 0; a < block.size(); a += Checksum::kLineBytes) {
      for (std::size_t b = a + Checksum::kLineBytes; b < block.size(); b += Checksum::kLineBytes) {
        Block swapped = block;
        std::swap_ranges(swapped.begin() + static_cast<std::ptrdiff_t>(a),
                         swapped.begin() + static_cast<std::ptrdiff_t>(a + Checksum::kLineBytes),
                         swapped.begin() + static_cast<std::ptrdiff_t>(b));
        CHECK(checksum_of(swapped) != right);
      }
    }
  }
  Checksum forth;
  Checksum back;
  for (const unsigned seed : {4U, 5U}) forth.add(random_block(seed));
  for (const unsigned seed : {5U, 4U}) back.add(random_block(seed));
  CHECK(forth.value() != back.value());
}

TEST_CASE("Checksum: a change in one block is not undone by its opposite in the next") {
  for (std::size_t bit = 0; bit < kLineBits; ++bit) {
    for (const std::size_t later : {std::size_t{0}, std::size_t{1}, std::size_t{63}}) {
      const Block zeros(Checksum::kBlockBytes);
      Checksum right;
      Checksum wrong;
      for (int i = 0; i < 2; ++i) {
        Block changed = zeros;
        flip(changed, i == 0 ? bit : later * kLineBits + bit);
        right.add(zeros);
        wrong.add(changed);
      }
      CHECK(right.value() != wrong.value());
    }
  }
}

TEST_CASE("Checksum: drawn changes of few bits and bursts of bytes are found") {
  std::mt19937 random(6);
  const Block block = random_block(7);
  const std::uint64_t right = checksum_of(block);
  std::size_t missed = 0;
  for (int i = 0; i < 200'000; ++i) {
    Block changed = block;
    if (i % 2 == 0) {
      const std::size_t bits = 1 + random() % 6;
      for (std::size_t k = 0; k < bits; ++k) flip(changed, random() % (8 * block.size()));
    } else {
      const std::size_t length = 1 + random() % 300;
      const std::size_t at = random() % (block.size() - length);
      for (std::size_t k = 0; k < length; ++k) changed[at + k] = static_cast<std::byte>(random());
    }
    if (changed != block && checksum_of(changed) == right) ++missed;
  }
  CHECK(missed == 0);
}

TEST_CASE("Checksum: copying gives the same, whatever the length and the place") {
  for (std::size_t bytes = 0; bytes <= 300; ++bytes) {
    const Block from = random_block(8, bytes + 3);
    Block to(bytes + 5, std::byte{7});
    Checksum copied;
    copied.copy(to.data() + 1, from.data() + 3, bytes);
    Checksum added;
    added.add(std::span(from).subspan(3));
    CHECK(copied.value() == added.value());
    CHECK(std::equal(from.begin() + 3, from.end(), to.begin() + 1));
    CHECK(to.front() == std::byte{7});
    CHECK(to[bytes + 1] == std::byte{7});
  }
}

TEST_CASE("checksum64: the checksum of its blocks, of any length") {
  for (const std::size_t bytes : {0U, 1U, 4095U, 4096U, 4097U, 8192U, 10'000U}) {
    Block block = random_block(10, bytes);
    Checksum sum;
    for (std::size_t at = 0; at == 0 || at < bytes; at += Checksum::kBlockBytes) {
      sum.add(std::span(block).subspan(at, std::min(Checksum::kBlockBytes, bytes - at)));
    }
    CHECK(checksum64(block) == sum.value());
    if (bytes > 0) flip(block, 8 * bytes - 1);
    CHECK((checksum64(block) == sum.value()) == (bytes == 0));
  }
}

TEST_CASE("Checksum: the same on every processor") {
  CHECK(checksum_of(Block(64, std::byte{1})) == 4323417927690697040U);
  CHECK(checksum_of(random_block(9)) == 14708970999996078308U);
}

}  // namespace ronde
