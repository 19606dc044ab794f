// onebit's arithmetic on the device, run thread by thread on the CPU, against the codec of ops/:
// the same frames, losses and decoded values, bit for bit.
#include "backends/cuda/sign.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/kernels.h"
#include "tests/support/cuda_fake/cudart_fake.h"
#include "tests/support/encoded_values.h"

namespace ronde::test {
namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kCounts[] = {1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 129, 1000, 4097, 6200};
constexpr std::size_t kBlocks[] = {64, 256, 512, 4096};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The same bits, or NaN in both: what a NaN carries differs between machines.
bool same_values(const Floats& a, const Floats& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  }
  return a.size() == b.size();
}

/// Both sides of one format. Frames have a byte at their end that nobody may write.
struct Sides {
  explicit Sides(std::size_t of)
      : block(of),
        codec(make_codec(parse_compression("onebit:block=" + std::to_string(of)).value())) {}

  Bytes on_cpu(const Floats& values, Floats& residual) const {
    Floats sums = values;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += residual[i];
    Bytes frame(codec->encoded_bytes(values.size()) + 1, std::byte{0xcd});
    codec->encode({.values = sums, .frame = frame.data(), .lost = residual.data()});
    return frame;
  }

  Bytes here(const Floats& values, Floats& residual) const {
    Bytes frame(codec->encoded_bytes(values.size()) + 1, std::byte{0xcd});
    const EncodeRun run{.values = values.data(),
                        .residual = residual.data(),
                        .lost = residual.data(),
                        .frame = frame.data(),
                        .count = values.size()};
    const EncodeWork work{.code = {FrameFormat::kOnebit, false, block}, .runs = {&run, 1}};
    REQUIRE(cuda::launch_encode(work, nullptr) == cudaSuccess);
    cuda_fake::finish(nullptr);
    return frame;
  }

  void check(const Floats& values) const {
    Floats expected(values.size());
    Floats residual(values.size());
    for (int step = 0; step < 3; ++step) {  // the second encodes what the first has lost
      const Bytes frame = on_cpu(values, expected);
      REQUIRE(here(values, residual) == frame);
      REQUIRE(same_values(residual, expected));
    }
  }

  const std::size_t block;
  const std::unique_ptr<const Codec> codec;
};

template <typename Values>
void for_all(const Values& values_of) {
  for (const std::size_t block : kBlocks) {
    const Sides sides(block);
    for (const std::size_t count : kCounts) {
      CAPTURE(block);
      CAPTURE(count);
      sides.check(values_of(count));
    }
  }
}

}  // namespace

TEST_CASE("onebit on the device: blocks of unlike magnitude have the bits of the CPU's codec") {
  for (const float odd : {0.0F, -0.0F, std::numeric_limits<float>::max(), kInfinity, kNan}) {
    CAPTURE(odd);
    for_all([&](std::size_t count) { return blocks_of_values(count, odd); });
  }
}

TEST_CASE("onebit on the device: sums whose order shows have the bits of the CPU's codec") {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> exponent(-30, 30);
  std::normal_distribution<float> normal;
  for_all([&](std::size_t count) {
    Floats values(count);
    for (float& value : values) value = std::ldexp(normal(random), exponent(random));
    return values;
  });
}

TEST_CASE("onebit on the device: any bits at all have the bits of the CPU's codec") {
  std::mt19937 random(12);
  for_all([&](std::size_t count) {
    Floats values(count);
    for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    return values;
  });
}

TEST_CASE(
    "onebit on the device: sums beyond fp32, denormals, zeros of both signs, one sign alone") {
  const float extremes[][2] = {{3e38F, 3.1e38F},  {-3e38F, -3.2e38F}, {3e38F, -3e38F},
                               {1e-45F, -3e-44F}, {0.0F, -0.0F},      {-0.0F, -1.0F},
                               {2.0F, 5.0F},      {-2.0F, -5.0F}};
  for (const auto& pair : extremes) {
    CAPTURE(pair[0]);
    CAPTURE(pair[1]);
    for_all([&](std::size_t count) {
      Floats values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = pair[i * 5 / 3 % 2];
      return values;
    });
  }
}

TEST_CASE("onebit on the device: NaN or infinity anywhere gives both sides' block of NaN") {
  for (const float odd : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const std::size_t at : {0U, 15U, 16U, 63U, 64U, 99U}) {
      CAPTURE(odd);
      CAPTURE(at);
      Floats values(100, -1.5F);
      values[at] = odd;
      Sides(64).check(values);
    }
  }
}

}  // namespace ronde::test
