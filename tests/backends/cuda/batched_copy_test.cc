#include "backends/cuda/batched_copy.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace ronde::test {
namespace {

using namespace ronde::cuda;

/// Entries one after the other as the host lays them out; returns the number of tiles.
template <typename Table>
std::size_t lay_out(Table& table, std::size_t tile) {
  std::size_t tiles = 0;
  for (unsigned i = 0; i < table.count; ++i) {
    table.entries[i].first_tile = tiles;
    tiles += tiles_of(table.entries[i].count, tile);
  }
  return tiles;
}

}  // namespace

TEST_CASE("batched copy: every tile finds its entry") {
  for (const unsigned count : {1U, 2U, 3U, 64U}) {
    SmallCopyTable table{};
    table.count = count;
    for (unsigned i = 0; i < count; ++i) table.entries[i].count = 1 + (i * 7919) % 30'000;
    const std::size_t tiles = lay_out(table, kTileElements);
    unsigned expected = 0;
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      while (expected + 1 < count && table.entries[expected + 1].first_tile <= tile) ++expected;
      REQUIRE(find_entry(table.entries, count, tile) == expected);
    }
  }
}

TEST_CASE(
    "batched copy: a copy is exact at every alignment and length, and writes nothing beside") {
  for (const std::size_t in_offset : {0U, 1U, 4U, 16U}) {
    for (const std::size_t out_offset : {0U, 3U, 4U}) {
      for (const std::size_t bytes : {1U, 15U, 16U, 17U, 65'535U, 65'537U, 200'003U}) {
        std::vector<unsigned char> in(bytes + 32);
        for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<unsigned char>(i * 31 + 7);
        std::vector<unsigned char> out(bytes + 32, 0xcd);
        SmallCopyTable table{};
        table.count = 1;
        table.entries[0] = {{in.data() + in_offset, out.data() + out_offset, bytes}, 0};
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

TEST_CASE("batched copy: kernel parameters stay within CUDA's limit") {
  CHECK(sizeof(SmallCopyTable) <= 4096);
  CHECK(sizeof(LargeCopyTable) <= 32'764);
}

}  // namespace ronde::test
