// Compression's kernels on a real GPU: the frames of the CPU's codecs, and how fast.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "backends/cuda/factory.h"
#include "core/base/abort.h"
#include "core/ports/device_codecs.h"
#include "ops/compression/compressed_work.h"
#include "ops/compression/quantise.h"
#include "ops/device_wait.h"
#include "tests/support/encoded_values.h"

namespace ronde::test {
namespace {

/// The first device, and ways to bring values there and back.
struct CodecGpu {
  CodecGpu() { REQUIRE(device->make_current().ok()); }

  template <typename T>
  T* upload(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    memory.push_back(device->allocate(MemoryKind::kDevice, bytes).value());
    REQUIRE(device->copy(memory.back().get(), values.data(), bytes, stream).ok());
    finish();
    return reinterpret_cast<T*>(memory.back().get());
  }

  /// Whether the device has these bits at `there`.
  template <typename T>
  bool holds(const T* there, const std::vector<T>& values) {
    std::vector<T> seen(values.size());
    const std::size_t bytes = values.size() * sizeof(T);
    REQUIRE(device->copy(seen.data(), there, bytes, stream).ok());
    finish();
    return std::memcmp(seen.data(), values.data(), bytes) == 0;
  }

  /// An uninitialised frame of so many bytes.
  std::byte* make_frame(std::size_t bytes) { return upload(std::vector<std::byte>(bytes)); }

  void finish() { REQUIRE(wait_on_host(*device->record(stream).value(), AbortToken()).ok()); }

  std::shared_ptr<DeviceOps> device = create_cuda_accelerator()->open(0).value();
  DeviceStream stream = device->open_stream().value();
  std::vector<std::shared_ptr<std::byte>> memory;
};

}  // namespace

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
    CodecGpu gpu;
    const float* const given = gpu.upload(values);
    float* const residual = gpu.upload(std::vector<float>(kCount));
    std::byte* const made = gpu.make_frame(frame.size());
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
      CodecGpu gpu;
      const FrameCode code = code_of(shared, spec);
      const EncodeRun run{.values = gpu.upload(std::vector<double>(kCount, 1.5)),
                          .added = gpu.upload(two),
                          .frame = gpu.make_frame(bytes),
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
          .frame = run.frame, .out = gpu.make_frame(8 * kCount), .flag = flag, .count = kCount};
      const CommitRun copy{gpu.upload(std::vector<float>(kCount, 2.0F)), to, flag, kCount};
      REQUIRE(codecs.decode({.code = code, .to = DType::kFloat64, .runs = {&back, 1}}, gpu.stream)
                  .ok());
      REQUIRE(codecs.commit({&copy, 1}, gpu.stream).ok());
      CHECK(gpu.holds(to, std::vector<float>(kCount, finite ? 2.0F : 1.0F)));
    }
  }
}

TEST_CASE("figure: int8 with error feedback against the device's bandwidth") {
  constexpr std::size_t kCount = 25'000'000;
  constexpr int kLaunches = 20;
  CodecGpu gpu;
  float* const residual = gpu.upload(std::vector<float>(kCount));
  const EncodeRun run{.values = gpu.upload(std::vector<float>(kCount, 0.5F)),
                      .residual = residual,
                      .lost = residual,
                      .frame = gpu.make_frame(kCount / 512 * 516 + 1024),
                      .count = kCount};
  const EncodeWork work{.code = {FrameFormat::kInt8, false, 512}, .runs = {&run, 1}};
  DeviceCodecs& codecs = *gpu.device->codecs();
  REQUIRE(codecs.encode(work, gpu.stream).ok());
  const DeviceEventPtr begin = gpu.device->record(gpu.stream, EventUse::kTime).value();
  for (int i = 0; i < kLaunches; ++i) REQUIRE(codecs.encode(work, gpu.stream).ok());
  const DeviceEventPtr end = gpu.device->record(gpu.stream, EventUse::kTime).value();
  gpu.finish();
  const double ns = static_cast<double>(end->ns_since(*begin).value()) / kLaunches;
  // Values and residual in, residual and codes out.
  fmt::print(
      "{{\"figure\": \"int8 encode with error feedback\", \"us\": {:.1f}, \"gb_per_s\": {:.0f}}}\n",
      ns * 1e-3, static_cast<double>(kCount) * 13 / ns);
}

}  // namespace ronde::test
