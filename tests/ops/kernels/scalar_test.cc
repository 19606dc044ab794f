#include "ops/kernels/scalar.h"

#include <doctest/doctest.h>

#include <cmath>

namespace ronde::kernels {

TEST_CASE("truncate_to: towards zero, saturating, and 0 for NaN") {
  CHECK(truncate_to<std::int32_t>(2.9) == 2);
  CHECK(truncate_to<std::int32_t>(-2.9) == -2);
  CHECK(truncate_to<std::int8_t>(127.9) == 127);
  CHECK(truncate_to<std::int8_t>(128.0) == 127);
  CHECK(truncate_to<std::int8_t>(-128.9) == -128);
  CHECK(truncate_to<std::uint8_t>(-0.5) == 0);
  CHECK(truncate_to<std::uint8_t>(255.99) == 255);
  CHECK(truncate_to<std::int64_t>(9.3e18) == std::numeric_limits<std::int64_t>::max());
  CHECK(truncate_to<std::int64_t>(-9.3e18) == std::numeric_limits<std::int64_t>::min());
  CHECK(truncate_to<std::int64_t>(9223372036854774784.0) == 9223372036854774784);
  CHECK(truncate_to<std::int16_t>(std::nan("")) == 0);
}

TEST_CASE("wrapping_product: modulo the type's width, without overflow") {
  CHECK(wrapping_product<std::int16_t>(-32'768, -1) == -32'768);
  CHECK(wrapping_product<std::int8_t>(16, 17) == 16);
  CHECK(wrapping_product<std::int64_t>(std::int64_t{1} << 62, 4) == 0);
}

}  // namespace ronde::kernels
