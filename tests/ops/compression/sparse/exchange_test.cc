// How lists of chosen elements travel: who gets which sums, what stays with its owner, and what
// bytes that are no lists come to.
#include "ops/compression/sparse/exchange.h"

#include <doctest/doctest.h>

#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "ops/transfer.h"
#include "tests/ops/counting_transport.h"

namespace ronde::test {
namespace {

using Elements = std::map<std::uint32_t, float>;  // by index

/// The result of an exchange on one rank, by piece.
struct Outcome {
  explicit Outcome(std::size_t pieces) : kept(pieces), sums(pieces) {}
  std::vector<Elements> kept, sums;
  Status status;
  CompressionFacts facts;
};

/// Lists that travel dense have zeros that nobody gave.
void collect(Elements& to, const SparseVector& elements) {
  for (std::size_t i = 0; i < elements.indices.size(); ++i) {
    if (elements.values[i] == 0) continue;
    CHECK(to.emplace(elements.indices[i], elements.values[i]).second);
  }
}

/// Pieces of some lengths, and what each rank gives of them.
struct Exchanges {
  std::vector<std::size_t> counts;
  std::size_t most_sums = std::numeric_limits<std::size_t>::max();

  static Elements given(int rank, std::size_t piece, std::size_t count) {
    Elements chosen;
    const auto first = static_cast<std::size_t>(rank) + piece;
    for (std::size_t i = first; i < count; i += 3) {
      chosen[static_cast<std::uint32_t>(i)] = static_cast<float>(i % 97 + 1) - 40.5F;
    }
    return chosen;
  }

  [[nodiscard]] SparsePiece piece(std::size_t index, std::size_t ranks) const {
    return {.deal = {counts[index], ranks, index}, .most_sums = most_sums};
  }

  Outcome run(Transport& transport) const {
    Outcome seen(counts.size());
    const AbortToken abort;
    const auto ranks = static_cast<std::size_t>(transport.size());
    SparseExchange exchange(transport, abort, seen.facts);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      std::vector<std::uint32_t> indices;
      std::vector<float> values;
      for (const auto& [index, value] : given(transport.rank(), i, counts[i])) {
        indices.push_back(index);
        values.push_back(value);
      }
      exchange.add(piece(i, ranks), indices, values);
    }
    seen.status = exchange.reduce([&](std::size_t piece, const SparseVector& elements) {
      collect(seen.kept[piece], elements);
    });
    if (!seen.status.ok()) return seen;
    seen.status = exchange.gather([&](std::size_t piece, const SparseVector& elements) {
      collect(seen.sums[piece], elements);
    });
    return seen;
  }

  /// The results of all ranks, by rank.
  [[nodiscard]] std::vector<Outcome> run_all(int ranks) const {
    std::vector<Outcome> seen(static_cast<std::size_t>(ranks), Outcome(counts.size()));
    count_traffic(ranks, [&](Transport& transport, Scratch&) {
      seen[static_cast<std::size_t>(transport.rank())] = run(transport);
    });
    return seen;
  }

  /// The sums of what all give of a piece.
  [[nodiscard]] Elements exact(std::size_t piece, int ranks) const {
    Elements all;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const auto& [index, value] : given(rank, piece, counts[piece])) all[index] += value;
    }
    return all;
  }
};

}  // namespace

TEST_CASE("sparse exchange: all ranks get the sums of what each of them gave") {
  const Exchanges exchanges{.counts = {1000, 1, 63, 4000}};
  for (const int ranks : {1, 2, 3, 5, 20}) {
    CAPTURE(ranks);
    for (const Outcome& seen : exchanges.run_all(ranks)) {
      REQUIRE(seen.status.ok());
      for (std::size_t piece = 0; piece < 4; ++piece) {
        CHECK(seen.sums[piece] == exchanges.exact(piece, ranks));
        CHECK(seen.kept[piece].empty());
      }
    }
  }
}

TEST_CASE("sparse exchange: what an owner does not pass on stays there, and is the smallest") {
  constexpr int kRanks = 3;
  const Exchanges exchanges{.counts = {3000, 500}, .most_sums = 40};
  const std::vector<Outcome> seen = exchanges.run_all(kRanks);
  for (std::size_t piece = 0; piece < 2; ++piece) {
    Elements all = seen[0].sums[piece];
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto me = static_cast<std::size_t>(rank);
      const SparsePiece dealt = exchanges.piece(piece, kRanks);
      CHECK(seen[me].sums[piece] == seen[0].sums[piece]);
      float least = std::numeric_limits<float>::infinity();
      std::size_t passed = 0;
      for (const auto& [index, value] : seen[0].sums[piece]) {
        if (dealt.deal.place(index).owner != me) continue;
        least = std::min(least, std::abs(value));
        ++passed;
      }
      CHECK(passed == 40);
      for (const auto& [index, value] : seen[me].kept[piece]) {
        CHECK(dealt.deal.place(index).owner == me);
        CHECK(std::abs(value) <= least);
      }
      all.insert(seen[me].kept[piece].begin(), seen[me].kept[piece].end());
    }
    CHECK(all == exchanges.exact(piece, kRanks));
  }
}

TEST_CASE("sparse exchange: bytes that are no list are an error that names the rank") {
  const Exchanges exchanges{.counts = {1000}};
  for (const bool too_long : {true, false}) {
    Status status;
    count_traffic(2, [&](Transport& transport, Scratch&) {
      if (transport.rank() == 0) {
        status = exchanges.run(transport).status;
        return;
      }
      const AbortToken abort;
      const std::uint64_t length = too_long ? 1'000'000 : 3;
      const std::vector<std::byte> wrong(3, std::byte{0xff});
      std::uint64_t theirs = 0;
      Posted posted(transport, abort);
      (void)posted.send(0, std::as_bytes(std::span(&length, 1)));
      if (!too_long) (void)posted.send(0, wrong);
      (void)posted.recv(0, std::as_writable_bytes(std::span(&theirs, 1)));
      REQUIRE(posted.wait().ok());
      if (too_long) return;  // rank 0 has refused the length, and sends nothing more
      std::vector<std::byte> list(theirs);
      CHECK(recv_from(transport, 0, list, abort).ok());
    });
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.message().find(too_long ? "rank 1 announces 1000000 bytes" : "from rank 1: ") ==
          0);
  }
}

TEST_CASE("sparse exchange: the time for sums and lists counts as decompressing") {
  const Exchanges exchanges{.counts = {100'000}};
  for (const Outcome& seen : exchanges.run_all(2)) CHECK(seen.facts.decompress_ns > 0);
}

}  // namespace ronde::test
