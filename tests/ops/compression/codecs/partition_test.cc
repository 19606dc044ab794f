#include "ops/compression/codecs/partition.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace ronde::test {
namespace {

/// Pieces of so many elements, one tensor each; tensor t's turn is `turns[t]`.
struct Divided {
  Divided(const char* text, const std::vector<std::size_t>& counts,
          const std::vector<std::size_t>& turns)
      : scheme(parse_compression(text).value()), work(scheme, tensors_of(turns)) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      pieces.push_back({.count = counts[i], .tensor = i});
    }
  }
  static std::vector<CompressedTensor> tensors_of(const std::vector<std::size_t>& turns) {
    std::vector<CompressedTensor> tensors(turns.size());
    for (std::size_t i = 0; i < turns.size(); ++i) tensors[i].turn = turns[i];
    return tensors;
  }
  [[nodiscard]] std::vector<Slice> among(std::size_t ranks, std::size_t slice_elements) const {
    return partition(pieces, work, ranks, slice_elements);
  }

  Scheme scheme;
  CompressedWork work;
  std::vector<CompressedPiece> pieces = {};
};

constexpr std::size_t kCut = std::size_t{1} << 18;

/// The owner of each element of a piece; a run that begins inside a block, or a frame that is
/// counted wrong, is a failure.
std::vector<std::size_t> owners_of(const std::vector<Slice>& slices, const Divided& of,
                                   std::size_t piece) {
  std::vector<std::size_t> owners(of.pieces[piece].count, 99);
  for (const Slice& slice : slices) {
    for (std::size_t rank = 0; rank < slice.runs.size(); ++rank) {
      for (const OwnedRun& run : slice.runs[rank]) {
        if (run.piece != piece) continue;
        CHECK(run.begin % of.work.codec().block() == 0);
        std::fill_n(owners.begin() + static_cast<std::ptrdiff_t>(run.begin), run.count, rank);
      }
    }
  }
  return owners;
}

}  // namespace

TEST_CASE("partition: blocks of a small tensor go to as many ranks, the turn's first") {
  const Divided divided("int8", {600, 100}, {0, 2});
  const auto slices = divided.among(3, 1 << 20);
  REQUIRE(slices.size() == 1);
  const auto first = owners_of(slices, divided, 0);
  CHECK(std::count(first.begin(), first.begin() + 512, 0U) == 512);
  CHECK(std::count(first.begin() + 512, first.end(), 1U) == 88);
  const auto second = owners_of(slices, divided, 1);
  CHECK(std::count(second.begin(), second.end(), 2U) == 100);
  CHECK(slices[0].bytes == std::vector<std::size_t>{516, 92, 104});
  CHECK(slices[0].all_bytes() == 712);
  CHECK(slices[0].runs[2][0].at == 600);
}

TEST_CASE("partition: who owns an element does not depend on what it travels with") {
  const Divided alone("int4", {600'000}, {1});
  const Divided among("int4", {5, 0, 600'000, 70'000}, {0, 0, 1, 2});
  const auto expected = owners_of(alone.among(4, 1 << 20), alone, 0);
  CHECK(std::count(expected.begin(), expected.end(), 99U) == 0);
  CHECK(owners_of(among.among(4, 1 << 20), among, 2) == expected);
  CHECK(owners_of(among.among(4, 1), among, 2) == expected);
}

TEST_CASE("partition: slices are whole cuts and follow one another") {
  const Divided divided("fp16", {3 * kCut + 1, 10}, {0, 0});
  const auto slices = divided.among(2, 2 * kCut);
  REQUIRE(slices.size() == 2);
  CHECK(slices[0].count == 2 * kCut);
  CHECK(slices[1].begin == 2 * kCut);
  CHECK(slices[1].count == kCut + 11);
  CHECK(divided.among(2, kCut).size() == 4);
  CHECK(Divided("fp16", {0, 0}, {0, 0}).among(2, kCut).empty());
}

TEST_CASE("partition: by owner, a slice has its share of each, however many ranks there are") {
  const Divided divided("int8", {5000, 100, 0, 100'000}, {0, 0, 0, 0});
  const std::vector<std::size_t> owners{1, 1, 0, 0};
  for (const std::size_t ranks : {2U, 16U, 64U}) {
    INFO(ranks, " ranks");
    const std::size_t share = std::max<std::size_t>(512, (1 << 14) / ranks);
    const auto slices =
        partition_by_owner(divided.pieces, owners, divided.work.codec(), ranks, 1 << 14);
    std::size_t begin = 0;
    for (const Slice& slice : slices) {
      CHECK(slice.begin == begin);
      begin += slice.count;
      for (const auto& runs : slice.runs) {
        std::size_t count = 0;
        for (const OwnedRun& run : runs) count += run.count;
        CHECK(count <= share);
      }
    }
    CHECK(begin == 105'100);
    for (const std::size_t piece : {0U, 1U, 3U}) {
      const auto found = owners_of(slices, divided, piece);
      CHECK(found == std::vector<std::size_t>(found.size(), owners[piece]));
    }
  }
}

}  // namespace ronde::test
