#include "core/base/small_float.h"
#include "ops/compression/registry.h"
#include "tests/ops/compression/codecs.h"

namespace ronde::test {

TEST_CASE("fp16 and bf16 frames are the elements rounded to nearest even") {
  on_each_target([] {
    for (const std::size_t count : odd_counts()) {
      const auto values = gradients(count);
      const auto fp16 = encoded(*codec_of("fp16"), values);
      const auto bf16 = encoded(*codec_of("bf16"), values);
      REQUIRE(fp16.size() == 2 * count);
      REQUIRE(bf16.size() == 2 * count);
      for (std::size_t i = 0; i < count; ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, &fp16[2 * i], 2);
        REQUIRE(bits == float_to_float16(values[i]));
        std::memcpy(&bits, &bf16[2 * i], 2);
        REQUIRE(bits == float_to_bfloat16(values[i]));
      }
    }
  });
}

TEST_CASE("fp16 keeps finite values finite and infinity infinite") {
  on_each_target([] {
    const auto kept = round_trip(
        *codec_of("fp16"), {65504.0F, 65519.9F, 65520.0F, 1e30F, -1e30F, HUGE_VALF, -HUGE_VALF});
    CHECK(kept == std::vector<float>{65504.0F, 65504.0F, 65504.0F, 65504.0F, -65504.0F, HUGE_VALF,
                                     -HUGE_VALF});
  });
}

}  // namespace ronde::test
