// Conformance: averages in which each rank has a weight.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tests/conformance/rank.h"

namespace ronde::test {
namespace {

/// The weights of a job: rank 1 has none.
double weight_of(int rank) { return rank == 1 ? 0 : 3 * rank + 0.5; }

double sum_of_weights(int ranks) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += weight_of(rank);
  return sum;
}

double weighted_mean(DType dtype, int ranks, std::size_t index) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    sum += weight_of(rank) * operand(ReduceOp::kAverage, dtype, rank, index);
  }
  return sum / sum_of_weights(ranks);
}

/// Relative: products and their sum are rounded.
double allowed(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4m3:
      return 0.25;
    case DType::kFloat8E5m2:
      return 0.5;
    case DType::kBfloat16:
      return std::ldexp(1.0, -6);
    case DType::kFloat16:
      return std::ldexp(1.0, -9);
    case DType::kFloat32:
      return std::ldexp(1.0, -21);
    default:
      return std::ldexp(1.0, -50);
  }
}

void check_weighted(const Rank& rank, DType dtype, std::size_t count, Place place) {
  Bundle bundle = bundle_of(Collective::kAllreduce, dtype, ReduceOp::kAverage);
  bundle.weighted = true;
  bundle.prescale = 0.5;
  bundle.postscale = 2;
  const Bytes in = operands(ReduceOp::kAverage, dtype, rank.rank(), count);
  const double share = weight_of(rank.rank()) / sum_of_weights(rank.size());
  const Bytes out = rank.run_one(bundle, in, place, count, share);
  for (std::size_t i = 0; i < count; ++i) {
    const double wanted = weighted_mean(dtype, rank.size(), i);
    const double got = get(dtype, out, i);
    if (std::abs(got - wanted) <= allowed(dtype) * std::abs(wanted)) continue;
    rank.expect_no(fmt::format("element {} is {}, not {}", i, got, wanted),
                   fmt::format("weighted {}", to_string(dtype)));
    return;
  }
}

/// A rank of weight 0 may hold anything: the mean of an empty batch is no number.
void check_nothing(const Rank& rank) {
  if (rank.size() < 2) return;
  Bundle bundle = bundle_of(Collective::kAllreduce, DType::kFloat32, ReduceOp::kAverage);
  bundle.weighted = true;
  Bytes in(sizeof(float));
  put(DType::kFloat32, in, 0, rank.rank() == 1 ? std::numeric_limits<double>::quiet_NaN() : 3);
  const double share = rank.rank() == 0 ? 1 : 0;
  CHECK(get(DType::kFloat32, rank.run_one(bundle, in, Place::kIn, 1, share), 0) == 3);
}

}  // namespace

void conformance_weights(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    int turn = 0;
    for (const DType dtype : all_dtypes()) {
      if (!is_floating(dtype)) continue;
      for (const std::size_t count : {0U, 1U, 1009U, 20'011U}) {
        check_weighted(rank, dtype, count, ++turn % 2 == 0 ? Place::kIn : Place::kOut);
      }
    }
    check_nothing(rank);
  });
}

}  // namespace ronde::test
