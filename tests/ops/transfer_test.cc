#include "ops/transfer.h"

#include <doctest/doctest.h>

#include <array>

namespace ronde {

TEST_CASE("even_chunk: parts follow one another, the first ones longer") {
  for (const std::size_t count : {0U, 1U, 7U, 8U, 1009U}) {
    for (const std::size_t parts : {1U, 2U, 3U, 8U}) {
      std::size_t next = 0;
      for (std::size_t i = 0; i < parts; ++i) {
        const Chunk part = even_chunk(count, parts, i);
        CHECK(part.begin == next);
        CHECK(part.count == count / parts + (i < count % parts ? 1 : 0));
        next += part.count;
      }
      CHECK(next == count);
    }
  }
}

TEST_CASE("begins_of: running sums from 0") {
  const std::array<std::size_t, 3> lengths{4, 0, 5};
  CHECK(begins_of(lengths) == std::vector<std::size_t>{0, 4, 4});
}

TEST_CASE("wrap: ranks below zero come round") {
  CHECK(wrap(-1, 5) == 4);
  CHECK(wrap(-5, 5) == 0);
  CHECK(wrap(4, 5) == 4);
}

TEST_CASE("copy_bytes: nothing to copy needs no addresses") {
  copy_bytes(nullptr, nullptr, 0);
  std::array<std::byte, 2> bytes{std::byte{1}, std::byte{2}};
  copy_bytes(bytes.data(), bytes.data() + 1, 1);
  CHECK(bytes[0] == std::byte{2});
}

TEST_CASE("Scratch: a block stays where it is until more is asked for") {
  Scratch scratch;
  std::byte* first = scratch.block(0, 1000);
  CHECK(scratch.block(0, 10) == first);
  CHECK(scratch.block(1, 10) != first);
  CHECK(reinterpret_cast<std::uintptr_t>(scratch.block(0, 5000)) % 64 == 0);
}

}  // namespace ronde
