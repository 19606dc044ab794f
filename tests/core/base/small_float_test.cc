#include "core/base/small_float.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace ronde {

TEST_CASE("half: every float16 survives the way to float and back") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = float16_to_float(half);
    if (std::isnan(value)) {
      CHECK(std::isnan(float16_to_float(float_to_float16(value))));
    } else {
      REQUIRE(float_to_float16(value) == half);
    }
  }
}

TEST_CASE("half: every bfloat16 survives the way to float and back") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = bfloat16_to_float(half);
    if (std::isnan(value)) {
      CHECK(std::isnan(bfloat16_to_float(float_to_bfloat16(value))));
    } else {
      REQUIRE(float_to_bfloat16(value) == half);
    }
  }
}

TEST_CASE("half: rounding is to nearest even, overflow is infinity") {
  CHECK(float16_to_float(float_to_float16(2049.0F)) == 2048.0F);
  CHECK(float16_to_float(float_to_float16(2051.0F)) == 2052.0F);
  CHECK(float16_to_float(float_to_float16(65519.0F)) == 65504.0F);
  CHECK(std::isinf(float16_to_float(float_to_float16(65520.0F))));
  CHECK(float_to_float16(std::ldexp(1.0F, -25)) == 0);
  CHECK(float_to_float16(std::ldexp(1.5F, -25)) == 1);
  CHECK(bfloat16_to_float(float_to_bfloat16(257.0F)) == 256.0F);
  CHECK(bfloat16_to_float(float_to_bfloat16(259.0F)) == 260.0F);
  CHECK(std::isinf(bfloat16_to_float(float_to_bfloat16(std::numeric_limits<float>::max()))));
}

namespace {

/// The value of a type's bits, by its definition.
struct Format {
  int mantissa_bits;
  int bias;
  double too_large;  ///< From here on (E5M2), or above (E4M3), nothing finite is nearest.
  bool has_infinity;
  float (*decode)(std::uint8_t);
  std::uint8_t (*encode)(float);
};

constexpr Format kE4m3{3, 7, 464.0, false, float8_e4m3_to_float, float_to_float8_e4m3};
constexpr Format kE5m2{2, 15, 61440.0, true, float8_e5m2_to_float, float_to_float8_e5m2};

double defined_value(const Format& format, std::uint8_t bits) {
  const int fraction = bits & ((1 << format.mantissa_bits) - 1);
  const int exponent = (bits & 0x7f) >> format.mantissa_bits;
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  const double one = 1 << format.mantissa_bits;
  if (format.has_infinity && exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (!format.has_infinity && (bits & 0x7f) == 0x7f) return NAN;
  if (exponent == 0) return sign * std::ldexp(fraction / one, 1 - format.bias);
  return sign * std::ldexp(1 + fraction / one, exponent - format.bias);
}

/// The bits of the nearest value, ties to even bits: looked for among all finite ones.
std::uint8_t nearest(const Format& format, float value) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const double size = std::abs(static_cast<double>(value));
  if (std::isnan(value)) return sign | 0x7f;
  if (format.has_infinity && size >= format.too_large) return sign | 0x7c;
  if (!format.has_infinity && size > format.too_large) return sign | 0x7f;
  std::uint8_t best = 0;
  for (std::uint8_t bits = 1; bits < 0x7f; ++bits) {
    const double candidate = defined_value(format, bits);
    if (!std::isfinite(candidate)) break;
    const double gain = std::abs(size - defined_value(format, best)) - std::abs(size - candidate);
    if (gain > 0 || (gain == 0 && bits % 2 == 0)) best = bits;
  }
  return sign | best;
}

/// All of fp32's exponents with some fractions, every value of the type, and around every tie.
std::vector<float> telling_floats(const Format& format) {
  std::vector<float> floats;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 299'993) {
    floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (int bits = 0; bits < 255; ++bits) {
    const float low = format.decode(static_cast<std::uint8_t>(bits));
    const float tie = (low + format.decode(static_cast<std::uint8_t>(bits + 1))) / 2.0F;
    for (const float near : {low, tie, format.has_infinity ? 61440.0F : 464.0F}) {
      for (const std::uint32_t nudge : {0xffffffffU, 0U, 1U}) {
        floats.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(near) + nudge));
      }
    }
  }
  return floats;
}

void check(const Format& format) {
  for (int bits = 0; bits < 256; ++bits) {
    const auto value = static_cast<double>(format.decode(static_cast<std::uint8_t>(bits)));
    const double wanted = defined_value(format, static_cast<std::uint8_t>(bits));
    CAPTURE(bits);
    CHECK((value == wanted || (std::isnan(value) && std::isnan(wanted))));
    if (!std::isnan(wanted)) CHECK(format.encode(static_cast<float>(value)) == bits);
  }
  int wrong = 0;
  for (const float value : telling_floats(format)) {
    wrong += format.encode(value) == nearest(format, value) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("float8: E4M3 is as defined, rounds to nearest even, and overflows to NaN") {
  check(kE4m3);
  CHECK(float_to_float8_e4m3(INFINITY) == 0x7f);
  CHECK(float_to_float8_e4m3(464.0F) == 0x7e);
}

TEST_CASE("float8: E5M2 is as defined, rounds to nearest even, and overflows to infinity") {
  check(kE5m2);
  CHECK(float_to_float8_e5m2(61439.0F) == 0x7b);
  CHECK(float_to_float8_e5m2(-61440.0F) == 0xfc);
}

}  // namespace ronde
