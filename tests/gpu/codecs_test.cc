// Compression's kernels on a real GPU: the frames of the CPU's codecs, and what its top-k chooses.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/codec_kernels.h"
#include "backends/cuda/sign_kernels.h"
#include "backends/cuda/top_kernels.h"
#include "ops/compression/select.h"
#include "tests/gpu/gpu_memory.h"
#include "tests/support/encoded_values.h"

namespace ronde::test {
namespace {

constexpr std::size_t kCount = 1'000'003;

/// What the CPU makes of values.
struct Encoded {
  Encoded(const Codec& codec, const std::vector<float>& values)
      : frame(codec.encoded_bytes(values.size())), lost(values.size()), decoded(values.size()) {
    const auto bytes = std::as_writable_bytes(std::span(frame));
    codec.encode({.values = values, .frame = bytes.data(), .lost = lost.data(), .key = 9});
    REQUIRE(codec.decode(bytes, decoded).ok());
  }
  std::vector<std::uint8_t> frame;
  std::vector<float> lost;
  std::vector<float> decoded;
};

template <typename Encode, typename Decode>
void check(const Codec& codec, cuda::EncodeWork work, const Encode& encode, const Decode& decode) {
  const std::vector<float> values = blocks_of_values(kCount);
  const Encoded expected(codec, values);
  GpuMemory gpu;
  work.values = gpu.upload(values);
  work.residual = gpu.upload(std::vector<float>(kCount));
  work.frame = gpu.upload(std::vector<std::uint8_t>(expected.frame.size()));
  work.count = kCount;
  REQUIRE(encode(work, gpu.stream) == 0);
  CHECK(gpu.holds(work.frame, expected.frame));
  CHECK(gpu.holds(work.residual, expected.lost));
  const cuda::DecodeWork back{.format = work.format,
                              .frame = work.frame,
                              .out = work.residual,
                              .count = kCount,
                              .block = work.block};
  REQUIRE(decode(back, gpu.stream) == 0);
  CHECK(gpu.holds(work.residual, expected.decoded));
}

/// Chooses on both sides, and compares what is chosen and what is left.
void check_top(const std::vector<float>& values, const std::vector<float>& residual,
               std::size_t k) {
  CAPTURE(k);
  std::vector<float> left = values;
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += residual[i];
  std::vector<std::uint32_t> indices;
  select_top(left, k, indices);
  std::vector<float> chosen;
  for (const std::uint32_t index : indices) chosen.push_back(std::exchange(left[index], 0.0F));

  GpuMemory gpu;
  const cuda::TopWork work{
      .values = gpu.upload(values),
      .left = gpu.upload(residual),
      .adds = true,
      .count = values.size(),
      .k = k,
      .selection = reinterpret_cast<cuda::Selection*>(gpu.room(sizeof(cuda::Selection))),
      .chunks = gpu.upload(std::vector<cuda::Tally>(cuda::tiles_of(values.size(), cuda::kChunk))),
      .indices = gpu.upload(std::vector<std::uint32_t>(k)),
      .chosen = gpu.upload(std::vector<float>(k))};
  REQUIRE(cuda::launch_select_top(work, gpu.stream) == 0);
  REQUIRE(gpu.download(work.selection, 1)[0].found == indices.size());
  CHECK(gpu.holds(work.indices, indices));
  CHECK(gpu.holds(work.chosen, chosen));
  CHECK(gpu.holds(work.left, left));
}

}  // namespace

TEST_CASE("gpu: compression's frames, losses and decoded values have the bits of the CPU's") {
  for (const SharedFormat& shared : kSharedFormats) {
    CAPTURE(shared.spec);
    const CompressionSpec spec = parse_compression(shared.spec).value();
    check(*make_codec(spec), encode_work(shared, spec, 9, 0), cuda::launch_encode,
          cuda::launch_decode);
  }
}

TEST_CASE("gpu: onebit's frames, losses and decoded values have the bits of the CPU's") {
  for (const std::size_t block : {64U, 256U, 4096U}) {
    CAPTURE(block);
    const auto spec = parse_compression("onebit:block=" + std::to_string(block)).value();
    check(*make_codec(spec), {.format = cuda::FrameFormat::kOnebit, .block = block},
          cuda::launch_encode_signs, cuda::launch_decode_signs);
  }
}

TEST_CASE("gpu: top-k chooses what the CPU chooses, in its order, and leaves what it leaves") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(kCount);
  std::vector<float> residual(kCount);
  for (float& value : values) value = normal(random);
  for (float& value : residual) value = normal(random) / 4;
  for (const std::size_t k : {std::size_t{1}, kCount / 100, kCount / 2, kCount}) {
    check_top(values, residual, k);
  }
  values[77] = std::numeric_limits<float>::infinity();
  for (std::size_t i = 100; i < kCount; ++i) values[i] = -residual[i];  // zeros
  check_top(values, residual, kCount / 100);
  for (float& value : values) value = std::copysign(1.5F, value);  // ties
  check_top(values, std::vector<float>(kCount), kCount / 3);
}

}  // namespace ronde::test
