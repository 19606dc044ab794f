// The arithmetic of Adasum on blocks of fp64 numbers, with SIMD chosen at run time for this CPU.
// All instruction sets give the same bits.
#pragma once

#include <array>
#include <cstddef>

#include "ops/kernels/double_double.h"

namespace ronde::kernels {

inline constexpr std::size_t kAdasumLanes = 8;

/// A dot product under way, as sums and what they lost: element i is in lane i % kAdasumLanes.
struct DotLanes {
  alignas(64) std::array<double, kAdasumLanes> sum{};
  alignas(64) std::array<double, kAdasumLanes> error{};
};

/// The dot products of two vectors with each other and with themselves.
struct PairDots {
  DotLanes ab;
  DotLanes aa;
  DotLanes bb;
};

/// Numbers of one double, or of two, hi + lo. No alignment is needed.
struct WideNumbers {
  double* hi = nullptr;
  double* lo = nullptr;  ///< Null: all are zero.
};

/// sum += factor * in, for `count` numbers, a multiple of kAdasumLanes. Where `sum` has lo,
/// products have about 106 bits; else factor.lo is left out.
void add_scaled(const DoubleDouble& factor, const double* in, std::size_t count,
                const WideNumbers& sum);

/// Adds the products of `count` numbers to `dots`. `count` is as above; both have lo, or neither
/// has. Products of numbers with lo have about 106 bits, others are rounded.
void add_dots(const WideNumbers& a, const WideNumbers& b, std::size_t count, PairDots& dots);

}  // namespace ronde::kernels
