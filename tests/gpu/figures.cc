// Figures of one device: `gpu_test -tc=figure*` prints one JSON line each. tests/gpu/targets.py
// says what is asked of them.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "backends/cuda/codec_kernels.h"
#include "tests/gpu/figure.h"
#include "tests/gpu/gpu_memory.h"
#include "tests/gpu/resnet50.h"

namespace ronde::test {
namespace {

/// Bytes in a second that the device's memory moves at most, by its data sheet; 0: it does not say.
double peak_bandwidth() {
  int khz = 0;
  int bits = 0;
  (void)cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, 0);
  (void)cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, 0);
  return 2.0 * khz * 1e3 * bits / 8;
}

}  // namespace

TEST_CASE("figure: packing and unpacking ResNet-50's gradients against a copy of the same bytes") {
  GpuMemory gpu;
  const auto counts = resnet50();
  CHECK(counts.size() == 161);
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const std::size_t bytes = 4 * all;
  std::byte* const flat = gpu.room(bytes);
  std::byte* const other = gpu.room(bytes);
  std::vector<DeviceStrip> pack;
  std::vector<DeviceStrip> unpack;
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    std::byte* const tensor = gpu.room(count * 4);
    pack.push_back({tensor, flat + at, count * 4});
    unpack.push_back({flat + at, tensor, count * 4});
    at += count * 4;
  }
  const auto transform = [&](const std::vector<DeviceStrip>& strips) {
    return gpu.device->transform({.strips = strips}, gpu.stream).ok();
  };
  const auto [pack_ns, unpack_ns, copy_ns] =
      by_turns<3>(*gpu.device, gpu.stream,
                  {[&] { return transform(pack); }, [&] { return transform(unpack); },
                   [&] { return gpu.device->copy(other, flat, bytes, gpu.stream).ok(); }});
  fmt::print(
      "{{\"figure\": \"pack of 161 gradients\", \"bytes\": {}, \"pack_us\": {:.1f}, "
      "\"unpack_us\": {:.1f}, \"copy_us\": {:.1f}, \"pack_share\": {:.3f}, "
      "\"unpack_share\": {:.3f}}}\n",
      bytes, pack_ns * 1e-3, unpack_ns * 1e-3, copy_ns * 1e-3, copy_ns / pack_ns,
      copy_ns / unpack_ns);
}

TEST_CASE("figure: int8 with error feedback against the device's bandwidth") {
  constexpr std::size_t kCount = 25'000'000;
  constexpr std::size_t kBytes = kCount * sizeof(float);
  GpuMemory gpu;
  const cuda::EncodeWork work{
      .format = cuda::FrameFormat::kInt8,
      .values = gpu.upload(std::vector<float>(kCount, 0.5F)),
      .residual = gpu.upload(std::vector<float>(kCount)),
      .frame = gpu.upload(std::vector<std::uint8_t>(kCount / 512 * 516 + 1024)),
      .count = kCount,
      .block = 512};
  std::byte* const from = gpu.room(kBytes);
  std::byte* const to = gpu.room(kBytes);
  const auto [encode_ns, copy_ns] =
      by_turns<2>(*gpu.device, gpu.stream,
                  {[&] { return cuda::launch_encode(work, gpu.stream) == 0; },
                   [&] { return gpu.device->copy(to, from, kBytes, gpu.stream).ok(); }});
  // Values and residual in, residual and codes out; of a copy, what it reads and what it writes.
  const double encode = static_cast<double>(kCount) * 13 / encode_ns;
  const double copy = static_cast<double>(2 * kBytes) / copy_ns;
  const double peak = peak_bandwidth() * 1e-9;
  fmt::print(
      "{{\"figure\": \"int8 encode with error feedback\", \"us\": {:.1f}, \"gb_per_s\": {:.0f}, "
      "\"copy_gb_per_s\": {:.0f}, \"peak_gb_per_s\": {:.0f}, \"share\": {:.3f}}}\n",
      encode_ns * 1e-3, encode, copy, peak, encode / (peak > 0 ? peak : copy));
}

}  // namespace ronde::test
