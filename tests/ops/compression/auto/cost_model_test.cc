#include "ops/compression/auto/cost_model.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace ronde {
namespace {

/// Of a processor that takes 1 ns for each element whatever it does.
CodecCosts even_costs() {
  CodecCosts costs;
  costs.fill(1e-9);
  costs[static_cast<std::size_t>(kDense)] = 0;
  return costs;
}

LinkCost link_of(double bytes_per_s) { return {.latency_s = 100e-6, .byte_s = 1 / bytes_per_s}; }

CodecKind cheapest(Accuracy accuracy, const TensorLoad& load, const LinkCost& link) {
  const auto kinds = candidates(accuracy, load.width);
  return *std::min_element(kinds.begin(), kinds.end(), [&](CodecKind a, CodecKind b) {
    return predict(a, load, link, even_costs()) < predict(b, load, link, even_costs());
  });
}

const Shape kMatrix{2560, 2560};
const Shape kVector{6'553'600};

}  // namespace

TEST_CASE("Classes of accuracy choose among what they allow, and none is always among it") {
  using enum CodecKind;
  CHECK(candidates(Accuracy::kLossless, 4) == std::vector{kDense});
  CHECK(candidates(Accuracy::kSafe, 4) == std::vector{kDense, kFp16, kBf16});
  CHECK(candidates(Accuracy::kSafe, 2) == std::vector{kDense});
  const auto all = candidates(Accuracy::kAggressive, 8);
  CHECK(all.size() == 8);
  CHECK(std::find(all.begin(), all.end(), kRandomk) == all.end());
}

TEST_CASE("A slow link is worth compressing for, memory is not") {
  const TensorLoad matrix = load_of({&kMatrix, 1}, 4);
  CHECK(cheapest(Accuracy::kSafe, matrix, link_of(12.5e6)) == CodecKind::kFp16);
  CHECK(cheapest(Accuracy::kSafe, matrix, link_of(10e9)) == kDense);
  CHECK(cheapest(Accuracy::kAggressive, matrix, link_of(10e9)) == kDense);
  CHECK(cheapest(Accuracy::kAggressive, matrix, link_of(1e6)) == CodecKind::kPowersgd);
  CHECK(cheapest(Accuracy::kLossless, matrix, link_of(1e6)) == kDense);
}

TEST_CASE("What is no matrix gains nothing by low rank") {
  const TensorLoad vector = load_of({&kVector, 1}, 4);
  CHECK(vector.low_rank_elements == vector.elements);
  CHECK(cheapest(Accuracy::kAggressive, vector, link_of(1e6)) == CodecKind::kTopk);
  const Shape small{8, 8}, empty{0, 5};
  CHECK(load_of({&small, 1}, 4).low_rank_elements == 64);
  CHECK(load_of({&empty, 1}, 4).elements == 0);
}

TEST_CASE("Few bytes travel dense where messages cost more than they save") {
  const Shape tiny{16, 16};
  CHECK(cheapest(Accuracy::kAggressive, load_of({&tiny, 1}, 4), link_of(1e9)) == kDense);
}

TEST_CASE("Wider elements are worth more, narrow ones less") {
  const TensorLoad wide = load_of({&kVector, 1}, 8), narrow = load_of({&kVector, 1}, 2);
  CHECK(wire_share(kDense, wide) == 2.0);
  CHECK(wire_share(kDense, narrow) == 0.5);
  CHECK(wire_share(CodecKind::kInt8, narrow) == doctest::Approx(0.25 + 1.0 / 512));
}

TEST_CASE("A link's cost is that of its bytes, without what it lets pass at once") {
  const double byte_s = 8e-9, burst_s = 2e-3;  // 1 Gbit/s and 250 kB at once
  std::vector<DenseTime> times{{4096, 200e-6}};
  for (std::size_t bytes = 1 << 18; bytes <= 1 << 22; bytes *= 2) {
    times.push_back({bytes, 200e-6 + byte_s * static_cast<double>(bytes) - burst_s});
  }
  CHECK(link_cost(times).latency_s == 200e-6);
  CHECK(link_cost(times).byte_s == doctest::Approx(byte_s));
  times.back().seconds += 5e-3;  // of 33 ms: the machine did something else
  CHECK(link_cost(times).byte_s == doctest::Approx(byte_s).epsilon(0.25));
  CHECK(link_cost(std::span(times).first(1)).byte_s == 0);
  CHECK(link_cost(std::span(times).first(2)).byte_s > 0);
  CHECK(link_cost({}).latency_s == 0);
}

TEST_CASE("Ranks that share a core make codecs cost as many times as much") {
  CHECK(contention(0.04, 0.02) == 2.0);
  CHECK(contention(0.02, 0.02) == 1.0);
  CHECK(contention(0.019, 0.02) == 1.0);  // clocks differ a little
  CHECK(contention(0.02, 0) == 1.0);
  // 4 Gbit/s: int8 pays on a core of its own, and not where four ranks share one.
  const TensorLoad matrix = load_of({&kMatrix, 1}, 4);
  const LinkCost link = link_of(0.5e9);
  CodecCosts costs = even_costs();
  CHECK(predict(CodecKind::kInt8, matrix, link, costs) < predict(kDense, matrix, link, costs));
  for (double& cost : costs) cost *= contention(0.4, 0.05);
  CHECK(predict(CodecKind::kInt8, matrix, link, costs) > predict(kDense, matrix, link, costs));
}

TEST_CASE("The speeds of all codecs can be measured") {
  const auto kinds = candidates(Accuracy::kAggressive, 4);
  const CodecCosts costs = measure_codecs(kinds);
  for (const CodecKind kind : kinds) {
    const double cost = costs[static_cast<std::size_t>(kind)];
    CHECK((kind == kDense ? cost == 0 : cost > 0 && cost < 1e-5));
  }
}

}  // namespace ronde
