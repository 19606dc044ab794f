#include "ops/adasum/slice.h"

#include <algorithm>
#include <cstring>

namespace ronde {
namespace {

using kernels::kAdasumLanes;

DoubleDouble total_of(const kernels::DotLanes& lanes) noexcept {
  DoubleDouble total;
  for (std::size_t lane = 0; lane < kAdasumLanes; ++lane) {
    total = total + exact_sum(lanes.sum[lane], lanes.error[lane]);
  }
  return total;
}

std::size_t whole_lanes(std::size_t count) noexcept {
  return (count + kAdasumLanes - 1) / kAdasumLanes * kAdasumLanes;
}

bool is_one(DoubleDouble value) noexcept { return value.hi == 1 && value.lo == 0; }

}  // namespace

/// The elements of one input as doubles, followed by zeros up to whole lanes.
void AdasumSlice::load(std::size_t rank, std::size_t begin, std::size_t count, double* into) const {
  kernels_.cast(dtype_, inputs_[rank] + begin * size_of(dtype_), DType::kFloat64, into, count);
  std::fill(into + count, into + whole_lanes(count), 0.0);
}

/// The elements of a node, followed by zeros up to whole lanes.
void AdasumSlice::evaluate(const AdasumNode& node, std::span<const DoubleDouble> coefficients,
                           std::size_t begin, std::size_t count, Values& values) {
  const std::size_t padded = whole_lanes(count);
  const kernels::WideNumbers sum = numbers_of(values);
  if (sum.lo != nullptr) std::fill_n(sum.lo, padded, 0.0);
  if (node.end == node.begin + 1 && is_one(coefficients[node.begin])) {
    return load(node.begin, begin, count, sum.hi);
  }
  std::fill_n(sum.hi, padded, 0.0);
  for (std::size_t rank = node.begin; rank < node.end; ++rank) {
    load(rank, begin, count, input_.data());
    kernels::add_scaled(coefficients[rank], input_.data(), padded, sum);
  }
}

AdasumProducts AdasumSlice::products(const AdasumPair& pair,
                                     std::span<const DoubleDouble> coefficients) {
  kernels::PairDots dots;
  for (std::size_t begin = 0; begin < count_; begin += kBlock) {
    const std::size_t count = std::min(kBlock, count_ - begin);
    evaluate(pair.a, coefficients, begin, count, a_);
    evaluate(pair.b, coefficients, begin, count, b_);
    kernels::add_dots(numbers_of(a_), numbers_of(b_), whole_lanes(count), dots);
  }
  return {total_of(dots.ab), total_of(dots.aa), total_of(dots.bb)};
}

void AdasumSlice::combine(std::span<const DoubleDouble> coefficients, std::byte* out) {
  const std::size_t element = size_of(dtype_);
  for (std::size_t begin = 0; begin < count_; begin += kBlock) {
    const std::size_t count = std::min(kBlock, count_ - begin);
    evaluate({0, inputs_.size()}, coefficients, begin, count, a_);
    kernels_.cast(DType::kFloat64, a_.hi.data(), dtype_, out + begin * element, count);
  }
}

}  // namespace ronde
