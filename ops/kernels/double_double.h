// Numbers of two doubles, hi + lo, with about 106 significant bits: sums of products whose terms
// cancel. Needs no fused multiply-add. NaN and infinity give NaN.
// Source: Dekker, "A floating-point technique for extending the available precision", 1971;
// Ogita, Rump, Oishi, "Accurate sum and dot product", 2005.
#pragma once

namespace ronde {

/// hi is the sum rounded to double.
struct DoubleDouble {
  double hi = 0;
  double lo = 0;
};

/// a + b exactly.
constexpr DoubleDouble exact_sum(double a, double b) noexcept {
  const double sum = a + b;
  const double part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

/// a + b exactly, where |a| >= |b|.
constexpr DoubleDouble normalised(double a, double b) noexcept {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// The upper 26 bits of a number below 2^996.
constexpr double upper_half(double value) noexcept {
  constexpr double kSplitter = 134217729;  // 2^27 + 1
  const double scaled = kSplitter * value;
  return scaled - (scaled - value);
}

/// a * b exactly, for factors below 2^996 and products that are not subnormal.
constexpr DoubleDouble exact_product(double a, double b) noexcept {
  const double product = a * b;
  const double a_hi = upper_half(a);
  const double b_hi = upper_half(b);
  const double a_lo = a - a_hi;
  const double b_lo = b - b_hi;
  return {product, ((a_hi * b_hi - product) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo};
}

constexpr DoubleDouble operator+(DoubleDouble a, DoubleDouble b) noexcept {
  const DoubleDouble sum = exact_sum(a.hi, b.hi);
  const DoubleDouble low = exact_sum(a.lo, b.lo);
  const DoubleDouble first = normalised(sum.hi, sum.lo + low.hi);
  return normalised(first.hi, first.lo + low.lo);
}

constexpr DoubleDouble operator-(DoubleDouble a, DoubleDouble b) noexcept {
  return a + DoubleDouble{-b.hi, -b.lo};
}

constexpr DoubleDouble operator*(DoubleDouble a, DoubleDouble b) noexcept {
  const DoubleDouble product = exact_product(a.hi, b.hi);
  return normalised(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

constexpr DoubleDouble operator/(DoubleDouble a, DoubleDouble b) noexcept {
  const double first = a.hi / b.hi;
  const DoubleDouble left = a - b * DoubleDouble{first, 0};
  const double second = left.hi / b.hi;
  const DoubleDouble rest = left - b * DoubleDouble{second, 0};
  return normalised(first, second) + DoubleDouble{rest.hi / b.hi, 0};
}

}  // namespace ronde
