// The kernels of compression on a real GPU make the frames of the CPU's codecs.
#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "core/ports/device_codecs.h"
#include "ops/compression/compressed_work.h"
#include "tests/gpu/gpu_memory.h"
#include "tests/support/encoded_values.h"

namespace ronde::test {

TEST_CASE("gpu: compression's frames, losses and decoded values have the bits of the CPU's") {
  constexpr std::size_t kCount = 1'000'003;
  for (const SharedFormat& shared : kSharedFormats) {
    CAPTURE(shared.spec);
    const CompressionSpec spec = parse_compression(shared.spec).value();
    const auto codec = make_codec(spec);
    const std::vector<float> values = blocks_of_values(kCount);
    std::vector<std::byte> frame(codec->encoded_bytes(kCount));
    std::vector<float> lost(kCount);
    std::vector<float> sums = values;
    for (float& sum : sums) sum += 0.0F;  // a residual of zero makes 0 of -0
    codec->encode({.values = sums, .frame = frame.data(), .lost = lost.data(), .key = 9});
    std::vector<float> decoded(kCount);
    REQUIRE(codec->decode(frame, decoded).ok());
    GpuMemory gpu;
    const float* const given = gpu.upload(values);
    float* const residual = gpu.upload(std::vector<float>(kCount));
    std::byte* const made = gpu.room(frame.size());
    const EncodeRun run{.values = given,
                        .residual = residual,
                        .lost = residual,
                        .frame = made,
                        .count = kCount,
                        .key = compression::fold_key(9)};
    const FrameCode code = code_of(shared, spec);
    REQUIRE(gpu.device->codecs()->encode({.code = code, .runs = {&run, 1}}, gpu.stream).ok());
    CHECK(gpu.holds(made, frame));
    CHECK(gpu.holds(residual, lost));
    const DecodeRun back{.frame = made, .out = residual, .count = kCount};
    REQUIRE(gpu.device->codecs()->decode({.code = code, .runs = {&back, 1}}, gpu.stream).ok());
    CHECK(gpu.holds(residual, decoded));
  }
}

TEST_CASE("gpu: sums of frames have the bits of the CPU's, and a NaN keeps the residual") {
  constexpr std::size_t kCount = 300'001;
  for (const SharedFormat& shared : kSharedFormats) {
    for (const float odd : {1.0F, std::numeric_limits<float>::quiet_NaN()}) {
      CAPTURE(shared.spec);
      CAPTURE(odd);
      const CompressionSpec spec = parse_compression(shared.spec).value();
      const auto codec = make_codec(spec);
      const std::size_t bytes = codec->encoded_bytes(kCount);
      std::vector<std::byte> two(2 * bytes);
      std::vector<float> sums(kCount, 0.75F);
      for (std::size_t i = 0; i < 2; ++i) {
        codec->encode({.values = blocks_of_values(kCount, odd), .frame = &two[i * bytes]});
        REQUIRE(codec->decode_add({&two[i * bytes], bytes}, sums).ok());
      }
      std::vector<std::byte> frame(bytes);
      codec->encode({.values = sums, .frame = frame.data()});
      REQUIRE(codec->decode(frame, sums).ok());
      const bool finite = all_finite(DType::kFloat32, sums.data(), kCount);
      GpuMemory gpu;
      const FrameCode code = code_of(shared, spec);
      const EncodeRun run{.values = gpu.upload(std::vector<double>(kCount, 1.5)),
                          .added = gpu.upload(two),
                          .frame = gpu.room(bytes),
                          .count = kCount,
                          .key = compression::fold_key(0)};
      DeviceCodecs& codecs = *gpu.device->codecs();
      REQUIRE(codecs
                  .encode({.code = code,
                           .from = DType::kFloat64,
                           .factor = 0.5,
                           .added_frames = 2,
                           .added_stride = bytes,
                           .runs = {&run, 1}},
                          gpu.stream)
                  .ok());
      if (odd == 1.0F) CHECK(gpu.holds(run.frame, frame));  // the payload of a NaN may differ
      std::uint32_t* const flag = gpu.upload(std::vector<std::uint32_t>(1));
      float* const to = gpu.upload(std::vector<float>(kCount, 1.0F));
      const DecodeRun back{
          .frame = run.frame, .out = gpu.room(8 * kCount), .flag = flag, .count = kCount};
      const CommitRun copy{gpu.upload(std::vector<float>(kCount, 2.0F)), to, flag, kCount};
      REQUIRE(codecs.decode({.code = code, .to = DType::kFloat64, .runs = {&back, 1}}, gpu.stream)
                  .ok());
      REQUIRE(codecs.commit({&copy, 1}, gpu.stream).ok());
      CHECK(gpu.holds(to, std::vector<float>(kCount, finite ? 2.0F : 1.0F)));
    }
  }
}

}  // namespace ronde::test
