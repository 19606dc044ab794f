// int8 and int4 against their formulas, byte by byte.
#include "ops/compression/registry.h"
#include "tests/ops/compression/codecs.h"

namespace ronde::test {
namespace {

/// The multiples of each block's scale, and the scales, by the formula.
struct Formula {
  std::vector<float> scales;
  std::vector<int> multiples;

  Formula(const std::vector<float>& values, std::size_t block, float steps) {
    for (std::size_t begin = 0; begin < values.size(); begin += block) {
      const std::size_t end = std::min(begin + block, values.size());
      float largest = 0;
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
      scales.push_back(largest / steps);
      for (std::size_t i = begin; i < end; ++i) {
        const float q = largest == 0 ? 0 : std::nearbyint(values[i] / scales.back());
        multiples.push_back(static_cast<int>(q));
      }
    }
  }
};

float float_at(const std::vector<std::byte>& frame, std::size_t at) {
  float value = 0;
  std::memcpy(&value, &frame[at], sizeof value);
  return value;
}

}  // namespace

TEST_CASE("int8 frames are scales and multiples") {
  on_each_target([] {
    for (const std::size_t block : {64UL, 512UL}) {
      const auto codec = codec_of("int8:block=" + std::to_string(block));
      for (const std::size_t count : odd_counts()) {
        const auto values = gradients(count);
        const auto frame = encoded(*codec, values);
        const Formula formula(values, block, 127);
        REQUIRE(frame.size() == count + 4 * formula.scales.size());
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t at = i / block * (block + 4);
          REQUIRE(float_at(frame, at) == formula.scales[i / block]);
          REQUIRE(std::to_integer<signed char>(frame[at + 4 + i % block]) == formula.multiples[i]);
        }
      }
    }
  });
}

TEST_CASE("int4 frames are scales and two multiples in a byte") {
  on_each_target([] {
    for (const std::size_t block : {64UL, 256UL}) {
      const auto codec = codec_of("int4:block=" + std::to_string(block));
      for (const std::size_t count : odd_counts()) {
        const auto values = gradients(count);
        const auto frame = encoded(*codec, values);
        const Formula formula(values, block, 7);
        REQUIRE(frame.size() == (count + 1) / 2 + 4 * formula.scales.size());
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t at = i / block * (block / 2 + 4);
          REQUIRE(float_at(frame, at) == formula.scales[i / block]);
          const auto both = std::to_integer<int>(frame[at + 4 + i % block / 2]);
          const int code = i % 2 == 0 ? both & 15 : both >> 4;
          REQUIRE(code - 8 == formula.multiples[i]);
        }
        if (count % 2 != 0) CHECK((frame.back() & std::byte{0xf0}) == std::byte{0x80});
      }
    }
  });
}

TEST_CASE("Every byte of a frame decodes by the formula") {
  on_each_target([] {
    std::vector<std::byte> frame(4 + 256);
    const float scale = 0.5F;
    std::memcpy(frame.data(), &scale, 4);
    for (std::size_t i = 0; i < 256; ++i) frame[4 + i] = static_cast<std::byte>(i);
    const auto bytes = decoded(*codec_of("int8:block=256"), frame, 256);
    const auto halves = decoded(*codec_of("int4:block=512"), frame, 512);
    for (std::size_t i = 0; i < 256; ++i) {
      const int code = static_cast<int>(i);
      REQUIRE(bytes[i] == 0.5F * static_cast<float>(code < 128 ? code : code - 256));
      REQUIRE(halves[2 * i] == 0.5F * static_cast<float>((code & 15) - 8));
      REQUIRE(halves[2 * i + 1] == 0.5F * static_cast<float>((code >> 4) - 8));
    }
  });
}

TEST_CASE("Stochastic rounding takes one of the two multiples next to the value") {
  on_each_target([] {
    const auto values = gradients(1000);
    const auto kept = round_trip(*codec_of("int4:rounding=stochastic"), values, 42);
    const Formula formula(values, 256, 7);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float scale = formula.scales[i / 256];
      REQUIRE(std::abs(kept[i] - values[i]) <= scale * 1.0001F);
      REQUIRE(std::abs(kept[i]) <= 7 * scale);
    }
  });
}

TEST_CASE("Random bits depend on an element's place in its tensor, not in the call") {
  const auto codec = codec_of("int8:rounding=stochastic,block=64");
  const auto values = gradients(256);
  std::vector<std::byte> tail(codec->encoded_bytes(128));
  codec->encode({std::span(values).subspan(128), tail.data(), nullptr, 4, 128});
  auto whole = encoded(*codec, values, 4);
  CHECK(
      std::equal(tail.begin(), tail.end(), whole.end() - static_cast<std::ptrdiff_t>(tail.size())));
}

}  // namespace ronde::test
