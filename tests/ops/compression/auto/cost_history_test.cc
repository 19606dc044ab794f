#include "ops/compression/auto/cost_history.h"

#include <doctest/doctest.h>

#include <map>

namespace ronde {
namespace {

using enum CodecKind;

/// Chooses and observes `steps` times in a world where things take what `truth` says.
struct World {
  std::vector<CodecKind> kinds{kDense, kFp16, kInt8};
  std::vector<double> predicted{1.0, 0.6, 0.5};
  std::map<CodecKind, double> truth;
  CostHistory history;
  std::map<CodecKind, int> chosen;
  int drifts = 0;

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      const CodecKind kind = history.choose(kinds, predicted);
      ++chosen[kind];
      drifts += history.observe(kind, truth[kind]) ? 1 : 0;
    }
  }
};

/// int8 is the best, and int4 not far from it.
World close_to_int8() {
  World world;
  world.kinds = {kDense, kInt8, kInt4};
  world.predicted = {9.0, 0.5, 0.5};
  world.truth = {{kDense, 9.0}, {kInt8, 0.5}, {kInt4, 0.55}};
  return world;
}

}  // namespace

TEST_CASE("A prediction that holds is kept to") {
  World world;
  world.predicted = {4.0, 2.0, 0.5};
  world.truth = {{kDense, 4.0}, {kFp16, 2.0}, {kInt8, 0.5}};
  world.run(32);
  CHECK_FALSE(world.history.settled());
  world.run(18);
  CHECK(world.chosen[kInt8] == 50);
  CHECK(world.history.settled());
  CHECK(world.history.seen(kInt8) == 0.5);
  CHECK(world.drifts == 0);
}

TEST_CASE("What is near to the best is tried, and taken where it is better than predicted") {
  World world;
  world.truth = {{kDense, 1.0}, {kFp16, 0.4}, {kInt8, 0.5}};
  world.run(60);
  CHECK(world.history.chosen() == kFp16);
  CHECK(world.chosen[kFp16] > 40);
  CHECK(world.chosen[kDense] == 0);
}

TEST_CASE("What takes longer than it was said to gives way") {
  World world;
  world.truth = {{kDense, 1.0}, {kFp16, 3.0}, {kInt8, 3.0}};
  world.run(60);
  CHECK(world.history.chosen() == kDense);
  CHECK(world.chosen[kFp16] <= 3);
  CHECK(world.chosen[kInt8] <= 3);
}

TEST_CASE("A cost that has drifted, up or down, is noticed and all is forgotten") {
  for (const double factor : {4.0, 0.25}) {
    World world;
    world.predicted = {9.0, 8.0, 0.5};
    world.truth = {{kDense, 9.0}, {kFp16, 8.0}, {kInt8, 0.5}};
    world.run(20);
    REQUIRE(world.drifts == 0);
    world.truth[kInt8] *= factor;
    world.run(CostHistory::kKept);
    CHECK(world.drifts == 1);
    CHECK(world.history.seen(kInt8) == 0);
  }
}

TEST_CASE("One slow time is no drift") {
  World world;
  world.predicted = {9.0, 8.0, 0.5};
  world.truth = {{kInt8, 0.5}};
  world.run(20);
  world.truth[kInt8] = 50;
  world.run(1);
  world.truth[kInt8] = 0.5;
  world.run(20);
  CHECK(world.drifts == 0);
}

TEST_CASE("One lucky time does not make a choice") {
  World world;
  world.predicted = {9.0, 0.6, 0.6};
  world.truth = {{kDense, 9.0}, {kFp16, 0.5}, {kInt8, 0.9}};
  (void)world.history.observe(kInt8, 0.3);
  world.run(60);
  CHECK(world.history.chosen() == kFp16);
  CHECK(world.chosen[kFp16] > 50);
}

TEST_CASE("What was unlucky when it was tried gets another chance") {
  World world = close_to_int8();
  world.run(10);
  REQUIRE(world.history.chosen() == kInt8);
  world.truth[kInt4] = 0.4;
  world.run(static_cast<int>(5 * CostHistory::kRivalEvery));
  CHECK(world.history.chosen() == kInt4);
}

TEST_CASE("What was slow at first is found out within some thirty choices") {
  World world = close_to_int8();
  world.run(7);
  world.truth[kInt4] = 0.4;
  world.run(25);
  CHECK(world.history.chosen() == kInt4);
}

TEST_CASE("Rivals are few and near to the best; dense is one of what leaves nothing over") {
  World world;
  world.predicted = {0.55, 0.5, 2.0};
  world.truth = {{kDense, 0.55}, {kFp16, 0.5}, {kInt8, 2.0}};
  world.run(100);
  CHECK(world.history.chosen() == kFp16);
  world.truth[kDense] = 0.3;
  world.run(100);
  CHECK(world.history.chosen() == kDense);
  CHECK(world.chosen[kInt8] == 0);
  World owing;
  owing.predicted = {0.55, 0.55, 0.5};
  owing.truth = {{kDense, 0.55}, {kFp16, 0.55}, {kInt8, 0.5}};
  owing.run(1000);
  CHECK(owing.chosen[kDense] <= 3);
  CHECK(owing.chosen[kFp16] <= 3);
  World close = close_to_int8();
  close.run(1000);
  CHECK(close.chosen[kInt4] <= 5 + 1000 / static_cast<int>(CostHistory::kRivalEvery));
  CHECK(close.chosen[kInt4] >= 1000 / static_cast<int>(CostHistory::kRivalEvery) - 3);
}

TEST_CASE("What leaves nothing over has no rivals that do: the best would not bring it") {
  World world;
  world.predicted = {9.0, 0.5, 0.5};
  world.truth = {{kDense, 9.0}, {kFp16, 0.5}, {kInt8, 0.55}};
  world.run(1000);
  CHECK(world.history.chosen() == kFp16);
  CHECK(world.chosen[kInt8] <= 3);
}

TEST_CASE("Loads of one size are alike, whatever they consist of") {
  const TensorLoad a{.width = 4, .elements = 1000, .low_rank_elements = 1000};
  TensorLoad b = a;
  b.elements = b.low_rank_elements = 1010;
  CHECK(class_of(a, Accuracy::kSafe) == class_of(b, Accuracy::kSafe));
  b.elements = b.low_rank_elements = 2000;
  CHECK(class_of(a, Accuracy::kSafe) != class_of(b, Accuracy::kSafe));
  CHECK(class_of(a, Accuracy::kSafe) != class_of(a, Accuracy::kAggressive));
}

}  // namespace ronde
