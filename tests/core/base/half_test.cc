#include "core/base/half.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

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

}  // namespace ronde
