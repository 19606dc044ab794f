// Figures of one device: `gpu_test -tc=figure*` prints one JSON line each. tests/gpu/targets.py has
// their targets.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "core/ports/device_codecs.h"
#include "tests/gpu/figure.h"
#include "tests/gpu/gpu_memory.h"
#include "tests/gpu/resnet50.h"

namespace ronde::test {

TEST_CASE("figure: packing and unpacking ResNet-50's gradients against a copy of the same bytes") {
  GpuMemory gpu;
  const auto counts = resnet50();
  CHECK(counts.size() == 161);
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const std::size_t bytes = 4 * all;
  std::byte* const flat = gpu.room(bytes);
  std::byte* const other = gpu.room(bytes);
  std::vector<DeviceCopy> pack;
  std::vector<DeviceCopy> unpack;
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    std::byte* const tensor = gpu.room(count * 4);
    pack.push_back({tensor, flat + at, count * 4});
    unpack.push_back({flat + at, tensor, count * 4});
    at += count * 4;
  }
  const auto transform = [&](const std::vector<DeviceCopy>& copies) {
    return gpu.device->transform({.copies = copies}, gpu.stream).ok();
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
  float* const residual = gpu.upload(std::vector<float>(kCount));
  const EncodeRun run{.values = gpu.upload(std::vector<float>(kCount, 0.5F)),
                      .residual = residual,
                      .lost = residual,
                      .frame = gpu.room(kCount / 512 * 516 + 1024),
                      .count = kCount};
  const EncodeWork work{.code = {FrameFormat::kInt8, false, 512}, .runs = {&run, 1}};
  std::byte* const from = gpu.room(kBytes);
  std::byte* const to = gpu.room(kBytes);
  const auto [encode_ns, copy_ns] =
      by_turns<2>(*gpu.device, gpu.stream,
                  {[&] { return gpu.device->codecs()->encode(work, gpu.stream).ok(); },
                   [&] { return gpu.device->copy(to, from, kBytes, gpu.stream).ok(); }});
  // An encoding reads values and residual and writes residual and codes; a copy reads and writes.
  const double encode = static_cast<double>(kCount) * 13 / encode_ns;
  const double copy = static_cast<double>(2 * kBytes) / copy_ns;
  fmt::print(
      "{{\"figure\": \"int8 encode with error feedback\", \"us\": {:.1f}, \"gb_per_s\": {:.0f}, "
      "\"copy_gb_per_s\": {:.0f}, \"share\": {:.3f}}}\n",
      encode_ns * 1e-3, encode, copy, encode / copy);
}

}  // namespace ronde::test
