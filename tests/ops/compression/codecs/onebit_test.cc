#include "ops/compression/registry.h"
#include "tests/ops/compression/codecs.h"

namespace ronde::test {

TEST_CASE("onebit frames are two means and the signs") {
  on_each_target([] {
    for (const std::size_t block : {64UL, 1024UL}) {
      const auto codec = codec_of("onebit:block=" + std::to_string(block));
      for (const std::size_t count : odd_counts()) {
        const auto values = gradients(count);
        const auto frame = encoded(*codec, values);
        std::size_t at = 0;
        for (std::size_t begin = 0; begin < count; begin += block) {
          const std::size_t size = std::min(block, count - begin);
          double sums[2] = {0, 0}, counts[2] = {0, 0};
          for (std::size_t i = 0; i < size; ++i) {
            const bool above = values[begin + i] >= 0;
            sums[above ? 0 : 1] += values[begin + i];
            counts[above ? 0 : 1] += 1;
            const auto byte = std::to_integer<unsigned>(frame[at + 8 + i / 8]);
            REQUIRE(((byte >> (i % 8)) & 1U) == (above ? 1U : 0U));
          }
          float means[2];
          std::memcpy(means, &frame[at], sizeof means);
          for (int side = 0; side < 2; ++side) {
            const double mean = counts[side] == 0 ? 0 : sums[side] / counts[side];
            REQUIRE(means[side] == doctest::Approx(mean).epsilon(1e-5));
          }
          at += 8 + (size + 7) / 8;
        }
        REQUIRE(at == frame.size());
      }
    }
  });
}

TEST_CASE("Unused sign bits are zero") {
  const auto frame = encoded(*codec_of("onebit"), std::vector<float>(11, 1.0F));
  CHECK(frame[8] == std::byte{0xff});
  CHECK(frame[9] == std::byte{0x07});
}

}  // namespace ronde::test
