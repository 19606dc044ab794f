#include "backends/cuda/strips.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace ronde::test {
namespace {

using namespace ronde::cuda;

/// Strips one after the other as the host lays them out; returns the number of tiles.
template <typename Table>
std::size_t lay_out(Table& table, std::size_t tile) {
  std::size_t tiles = 0;
  for (unsigned i = 0; i < table.count; ++i) {
    table.strips[i].first_tile = tiles;
    tiles += tiles_of(table.strips[i].count, tile);
  }
  return tiles;
}

}  // namespace

TEST_CASE("strips: every tile finds its strip") {
  for (const unsigned count : {1U, 2U, 3U, 64U}) {
    SmallTable table{};
    table.count = count;
    for (unsigned i = 0; i < count; ++i) table.strips[i].count = 1 + (i * 7919) % 30'000;
    const std::size_t tiles = lay_out(table, kTileElements);
    unsigned expected = 0;
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      while (expected + 1 < count && table.strips[expected + 1].first_tile <= tile) ++expected;
      REQUIRE(find_strip(table.strips, count, tile) == expected);
    }
  }
}

TEST_CASE("strips: a copy is exact at every alignment and length, and writes nothing beside") {
  for (const std::size_t in_offset : {0U, 1U, 4U, 16U}) {
    for (const std::size_t out_offset : {0U, 3U, 4U}) {
      for (const std::size_t bytes : {1U, 15U, 16U, 17U, 65'535U, 65'537U, 200'003U}) {
        std::vector<unsigned char> in(bytes + 32);
        for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<unsigned char>(i * 31 + 7);
        std::vector<unsigned char> out(bytes + 32, 0xcd);
        SmallTable table{};
        table.count = 1;
        table.strips[0] = {in.data() + in_offset, out.data() + out_offset, bytes, 0};
        const std::size_t tiles = lay_out(table, kTileBytes);
        for (std::size_t tile = 0; tile < tiles; ++tile) {
          for (unsigned thread = 0; thread < kThreads; ++thread) copy_tile(table, tile, thread);
        }
        REQUIRE(std::memcmp(out.data() + out_offset, in.data() + in_offset, bytes) == 0);
        REQUIRE(out[out_offset + bytes] == 0xcd);
        if (out_offset > 0) REQUIRE(out[out_offset - 1] == 0xcd);
      }
    }
  }
}

TEST_CASE("strips: kernel parameters stay within CUDA's limit") {
  CHECK(sizeof(SmallTable) <= 4096);
  CHECK(sizeof(LargeTable) <= 32'764);
}

}  // namespace ronde::test
