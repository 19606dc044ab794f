// Adasum's arithmetic: the same bits on every instruction set, those of plain code.
#include "ops/kernels/adasum.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/ops/kernels/targets.h"

namespace ronde {
namespace {

using kernels::DotLanes;
using kernels::kAdasumLanes;
using kernels::PairDots;
using kernels::WideNumbers;

constexpr std::size_t kCount = 40 * kAdasumLanes;

/// Numbers of many magnitudes and both signs.
std::vector<double> drawn(unsigned seed, double most) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> values(-most, most);
  std::uniform_int_distribution<int> exponents(-40, 40);
  std::vector<double> numbers(kCount);
  for (double& number : numbers) number = std::ldexp(values(random), exponents(random));
  return numbers;
}

struct Numbers {
  std::vector<double> hi;
  std::vector<double> lo;

  Numbers(unsigned seed, bool wide) : hi(drawn(seed, 1)) {
    if (!wide) return;
    lo = drawn(seed + 1, 1);
    for (std::size_t i = 0; i < kCount; ++i) {
      const DoubleDouble both = exact_sum(hi[i], lo[i] * hi[i] * 0x1p-95);
      hi[i] = both.hi;
      lo[i] = both.lo;
    }
  }
  WideNumbers view() { return {hi.data(), lo.empty() ? nullptr : lo.data()}; }
  [[nodiscard]] double lo_at(std::size_t i) const { return lo.empty() ? 0 : lo[i]; }
};

void add_product(const Numbers& a, const Numbers& b, std::size_t i, DotLanes& dots) {
  const std::size_t lane = i % kAdasumLanes;
  const bool wide = !a.lo.empty();
  const DoubleDouble product =
      wide ? exact_product(a.hi[i], b.hi[i]) : DoubleDouble{a.hi[i] * b.hi[i], 0};
  const DoubleDouble sum = exact_sum(dots.sum[lane], product.hi);
  dots.sum[lane] = sum.hi;
  dots.error[lane] += sum.lo;
  if (!wide) return;
  dots.error[lane] += product.lo + (a.hi[i] * b.lo_at(i) + a.lo_at(i) * b.hi[i]);
}

bool same_bits(const void* a, const void* b, std::size_t bytes) {
  return std::memcmp(a, b, bytes) == 0;
}

}  // namespace

TEST_CASE("Adasum's dot products have the bits of plain code, on every instruction set") {
  for (const bool wide : {false, true}) {
    INFO("wide ", wide);
    Numbers a(1, wide);
    Numbers b(7, wide);
    PairDots wanted;
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < kCount; ++i) {
        add_product(a, b, i, wanted.ab);
        add_product(a, a, i, wanted.aa);
        add_product(b, b, i, wanted.bb);
      }
    }
    test::for_each_target([&](const ReduceKernels&) {
      PairDots got;
      for (int round = 0; round < 2; ++round) kernels::add_dots(a.view(), b.view(), kCount, got);
      CHECK(same_bits(&got, &wanted, sizeof(got)));
    });
  }
}

TEST_CASE("Adasum's scaled sums have the bits of plain code, on every instruction set") {
  const DoubleDouble factor = DoubleDouble{2, 0} / DoubleDouble{3, 0};
  const std::vector<double> input = drawn(3, 1);
  for (const bool wide : {false, true}) {
    INFO("wide ", wide);
    const Numbers before(5, wide);
    Numbers wanted = before;
    for (std::size_t i = 0; i < kCount; ++i) {
      if (wide) {
        const DoubleDouble sum =
            DoubleDouble{wanted.hi[i], wanted.lo[i]} + factor * DoubleDouble{input[i], 0};
        wanted.hi[i] = sum.hi;
        wanted.lo[i] = sum.lo;
      } else {
        wanted.hi[i] += factor.hi * input[i];
      }
    }
    test::for_each_target([&](const ReduceKernels&) {
      Numbers got = before;
      kernels::add_scaled(factor, input.data(), kCount, got.view());
      CHECK(got.hi == wanted.hi);
      CHECK(got.lo == wanted.lo);
    });
  }
}

TEST_CASE("Adasum's dot products keep what cancels") {
  std::vector<double> a(3 * kAdasumLanes, 1);
  std::vector<double> b(3 * kAdasumLanes);
  for (std::size_t lane = 0; lane < kAdasumLanes; ++lane) {
    b[lane] = 0x1p60;
    b[lane + kAdasumLanes] = 1;
    b[lane + 2 * kAdasumLanes] = -0x1p60;
  }
  test::for_each_target([&](const ReduceKernels&) {
    PairDots dots;
    kernels::add_dots({a.data(), nullptr}, {b.data(), nullptr}, a.size(), dots);
    for (std::size_t lane = 0; lane < kAdasumLanes; ++lane) {
      CHECK(dots.ab.sum[lane] + dots.ab.error[lane] == 1);
    }
  });
}

}  // namespace ronde
