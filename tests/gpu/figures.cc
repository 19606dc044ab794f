// Figures of the device layer on a real GPU: `gpu_test -tc=figure*` prints one JSON line each.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "backends/cuda/factory.h"
#include "core/base/abort.h"
#include "core/base/clock.h"
#include "ops/device_wait.h"

namespace ronde::test {
namespace {

/// Parameters of ResNet-50's 161 tensors, in the order of magnitude and number of the real ones.
std::vector<std::size_t> resnet50() {
  std::vector<std::size_t> counts{64 * 3 * 49, 64, 64};
  std::size_t in = 64;
  const std::size_t widths[] = {64, 128, 256, 512};
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const std::size_t width = widths[stage];
    for (int block = 0; block < blocks[stage]; ++block) {
      for (const std::size_t weights : {in * width, width * width * 9, width * width * 4}) {
        const std::size_t channels = weights == width * width * 4 ? 4 * width : width;
        counts.insert(counts.end(), {weights, channels, channels});
      }
      if (block == 0) counts.insert(counts.end(), {in * width * 4, width * 4, width * 4});
      in = width * 4;
    }
  }
  counts.insert(counts.end(), {2048 * 1000, 1000});
  return counts;
}

/// Median seconds of `work`, queued 50 times on an idle stream.
double median_seconds(DeviceOps& device, DeviceStream stream, const std::function<Status()>& work) {
  std::vector<double> times;
  for (int i = 0; i < 60; ++i) {
    const TimePoint start = now();
    REQUIRE(work().ok());
    const DeviceEventPtr done = device.record(stream).value();
    while (!done->reached().value()) {
    }
    if (i >= 10) times.push_back(std::chrono::duration<double>(now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 25, times.end());
  return times[25];
}

}  // namespace

TEST_CASE("figure: packing ResNet-50's gradients against a copy of the same bytes") {
  const auto device = create_cuda_accelerator()->open(0).value();
  const DeviceStream stream = device->open_stream().value();
  const auto counts = resnet50();
  CHECK(counts.size() == 161);
  std::vector<std::shared_ptr<std::byte>> tensors;
  std::vector<DeviceStrip> strips;
  std::size_t bytes = 0;
  for (const std::size_t count : counts) {
    tensors.push_back(device->allocate(MemoryKind::kDevice, count * 4).value());
    bytes += count * 4;
  }
  const auto flat = device->allocate(MemoryKind::kDevice, bytes).value();
  const auto other = device->allocate(MemoryKind::kDevice, bytes).value();
  std::size_t at = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    strips.push_back({tensors[i].get(), flat.get() + at, counts[i] * 4});
    at += counts[i] * 4;
  }
  const double pack = median_seconds(*device, stream,
                                     [&] { return device->transform({.strips = strips}, stream); });
  const double copy = median_seconds(
      *device, stream, [&] { return device->copy(other.get(), flat.get(), bytes, stream); });
  fmt::print(
      "{{\"figure\": \"pack of 161 gradients\", \"bytes\": {}, \"pack_us\": {:.1f}, "
      "\"copy_us\": {:.1f}, \"share_of_copy\": {:.3f}}}\n",
      bytes, pack * 1e6, copy * 1e6, copy / pack);
}

}  // namespace ronde::test
