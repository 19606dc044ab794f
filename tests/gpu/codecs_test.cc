// Compression's kernels on a real GPU: the frames of the CPU's codecs.
#include <doctest/doctest.h>

#include <vector>

#include "core/ports/device_codecs.h"
#include "ops/compression/quantise.h"
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
    codec->encode({.values = values, .frame = frame.data(), .lost = lost.data(), .key = 9});
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

}  // namespace ronde::test
