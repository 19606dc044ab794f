// Compression's kernels on a real GPU: the frames of the CPU's codecs, and how fast.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <vector>

#include "backends/cuda/factory.h"
#include "core/base/abort.h"
#include "core/ports/device_codecs.h"
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
    codec->encode({.values = values, .frame = frame.data(), .lost = lost.data(), .key = 9});
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
