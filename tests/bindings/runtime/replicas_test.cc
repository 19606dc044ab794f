// The differences of replicas: which tensor, which ranks, and bits drawn from all of a state.
#include "bindings/runtime/replicas.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>

#include "core/base/bytes.h"

namespace ronde {
namespace {

using Table = std::vector<HashedTensor>;

std::vector<ReplicaDifference> find(const std::vector<Table>& tables) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < tables.size(); ++i) ranks.push_back(static_cast<int>(i));
  return find_differences(ranks, tables);
}

}  // namespace

TEST_CASE("replicas: ranks that have the same differ in nothing") {
  CHECK(find({{{1, 10}, {2, 20}}, {{1, 10}, {2, 20}}}).empty());
  CHECK(find({{}, {}}).empty());
}

TEST_CASE("replicas: most ranks are right, and of two the lowest") {
  const auto found = find({{{1, 11}, {2, 20}}, {{1, 10}, {2, 20}}, {{1, 10}, {2, 21}}});
  REQUIRE(found.size() == 2);
  CHECK(found[0].ranks == std::vector{0});
  CHECK(found[0].usual == 1);
  CHECK(found[1].ranks == std::vector{2});
  CHECK(found[1].usual == 0);
  const auto two = find({{{1, 10}}, {{1, 11}}});
  CHECK(two[0].ranks == std::vector{1});
  CHECK(two[0].usual == 0);
}

TEST_CASE("replicas: a tensor that a rank has not is missing") {
  const auto found = find({{{1, 10}}, {{1, 10}, {2, 20}}, {{1, 10}, {2, 20}}});
  REQUIRE(found.size() == 1);
  CHECK(found[0].missing);
  CHECK(found[0].holder == 1);
  CHECK(found[0].ranks == std::vector{0});
}

TEST_CASE("replicas: texts name ranks, a few of many") {
  CHECK(list_ranks(std::array{3}) == "rank 3");
  CHECK(list_ranks(std::array{1, 2}) == "ranks 1, 2");
  CHECK(list_ranks(std::array{1, 2, 3, 4, 5, 6}) == "ranks 1, 2, 3, 4 and 2 more");
  ReplicaDifference one;
  one.ranks = {2};
  CHECK(describe(one, "w") == "w has another value on rank 2 than on rank 0");
  one.missing = true;
  CHECK(describe(one, "w") == "w has another tensor on rank 2 than on rank 0");
}

TEST_CASE("replicas: of a million drawn bits each one is found, in its tensor and on its rank") {
  std::mt19937_64 draw(7);
  constexpr std::array<std::size_t, 6> kBytes = {1, 8, 100, 257, 1024, 4096};
  constexpr std::size_t kRanks = 4;
  std::vector<std::vector<std::byte>> state;
  Table healthy;
  for (const std::size_t bytes : kBytes) {
    auto& tensor = state.emplace_back(bytes);
    for (std::byte& byte : tensor) byte = static_cast<std::byte>(draw());
    healthy.push_back({state.size(), hash64(tensor)});
  }
  std::vector<Table> tables(kRanks, healthy);
  std::size_t found_right = 0;
  constexpr std::size_t kDraws = 1'000'000;
  for (std::size_t i = 0; i < kDraws; ++i) {
    const std::size_t tensor = draw() % state.size();
    const std::size_t rank = draw() % kRanks;
    const std::size_t at = draw() % state[tensor].size();
    const auto bit = static_cast<std::byte>(1U << (draw() % 8));
    state[tensor][at] ^= bit;
    tables[rank][tensor].hash = hash64(state[tensor]);
    const auto found = find(tables);
    found_right += found.size() == 1 && found[0].key == tensor + 1 &&
                   found[0].ranks == std::vector{static_cast<int>(rank)};
    state[tensor][at] ^= bit;
    tables[rank][tensor] = healthy[tensor];
  }
  CHECK(found_right == kDraws);
}

}  // namespace ronde
