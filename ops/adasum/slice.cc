#include "ops/adasum/slice.h"

#include <algorithm>
#include <cstring>

namespace ronde {
namespace {

constexpr std::size_t kLanes = 8;

/// Partial sums of a dot product, element i in lane i % kLanes.
struct Lanes {
  std::array<double, kLanes> hi{};
  std::array<double, kLanes> lo{};

  void add(std::size_t lane, double value) noexcept {
    const DoubleDouble sum = exact_sum(hi[lane], value);
    hi[lane] = sum.hi;
    lo[lane] += sum.lo;
  }
  [[nodiscard]] DoubleDouble total() const noexcept {
    DoubleDouble sum;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sum = sum + exact_sum(hi[lane], lo[lane]);
    }
    return sum;
  }
};

/// Adds the products of elements 0 .. count-1, a multiple of kLanes.
void add_products(const double* a, const double* b, std::size_t count, Lanes& lanes) noexcept {
  Lanes sums = lanes;
  for (std::size_t i = 0; i < count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums.add(lane, a[i + lane] * b[i + lane]);
  }
  lanes = sums;
}

/// As add_products, of numbers of two doubles.
void add_wide_products(const double* a, const double* a_lo, const double* b, const double* b_lo,
                       std::size_t count, Lanes& lanes) noexcept {
  Lanes sums = lanes;
  for (std::size_t i = 0; i < count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t at = i + lane;
      const DoubleDouble product = exact_product(a[at], b[at]);
      sums.add(lane, product.hi);
      sums.lo[lane] += product.lo + (a[at] * b_lo[at] + a_lo[at] * b[at]);
    }
  }
  lanes = sums;
}

std::size_t whole_lanes(std::size_t count) noexcept {
  return (count + kLanes - 1) / kLanes * kLanes;
}

}  // namespace

/// The elements of one input as doubles.
const double* AdasumSlice::load(std::size_t rank, std::size_t begin, std::size_t count,
                                double* into) const {
  const std::byte* const from = inputs_[rank] + begin * size_of(dtype_);
  if (is_wide()) {
    std::memcpy(into, from, count * sizeof(double));
  } else {
    kernels_.cast(dtype_, from, DType::kFloat64, into, count);
  }
  return into;
}

void AdasumSlice::add_input(DoubleDouble coefficient, std::size_t rank, std::size_t begin,
                            std::size_t count, Values& values) {
  const double* const input = load(rank, begin, count, input_.data());
  if (!is_wide()) {
    for (std::size_t i = 0; i < count; ++i) values.hi[i] += coefficient.hi * input[i];
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const DoubleDouble sum =
        DoubleDouble{values.hi[i], values.lo[i]} + coefficient * DoubleDouble{input[i], 0};
    values.hi[i] = sum.hi;
    values.lo[i] = sum.lo;
  }
}

/// The elements of a node, followed by zeros up to whole lanes.
void AdasumSlice::evaluate(const AdasumNode& node, std::span<const DoubleDouble> coefficients,
                           std::size_t begin, std::size_t count, Values& values) {
  const std::size_t padded = whole_lanes(count);
  std::fill_n(values.hi.data(), padded, 0.0);
  if (is_wide()) std::fill_n(values.lo.data(), padded, 0.0);
  for (std::size_t rank = node.begin; rank < node.end; ++rank) {
    add_input(coefficients[rank], rank, begin, count, values);
  }
}

AdasumProducts AdasumSlice::products(const AdasumPair& pair,
                                     std::span<const DoubleDouble> coefficients) {
  Lanes ab, aa, bb;
  const auto add = [this](const Values& x, const Values& y, std::size_t count, Lanes& lanes) {
    if (is_wide()) {
      add_wide_products(x.hi.data(), x.lo.data(), y.hi.data(), y.lo.data(), count, lanes);
    } else {
      add_products(x.hi.data(), y.hi.data(), count, lanes);
    }
  };
  for (std::size_t begin = 0; begin < count_; begin += kBlock) {
    const std::size_t count = std::min(kBlock, count_ - begin);
    evaluate(pair.a, coefficients, begin, count, a_);
    evaluate(pair.b, coefficients, begin, count, b_);
    add(a_, b_, whole_lanes(count), ab);
    add(a_, a_, whole_lanes(count), aa);
    add(b_, b_, whole_lanes(count), bb);
  }
  return {ab.total(), aa.total(), bb.total()};
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
