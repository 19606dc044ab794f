// The first device, and copies to it and back.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/cuda/factory.h"
#include "core/base/abort.h"
#include "ops/memory/device_wait.h"

namespace ronde::test {

struct GpuMemory {
  GpuMemory() { REQUIRE(device->make_current().ok()); }

  /// Device memory, freed with this object.
  std::byte* room(std::size_t bytes) {
    return memory.emplace_back(device->allocate(MemoryKind::kDevice, bytes).value()).get();
  }

  template <typename T>
  T* upload(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    std::byte* const there = room(bytes);
    REQUIRE(device->copy(there, values.data(), bytes, stream).ok());
    finish();
    return reinterpret_cast<T*>(there);
  }

  template <typename T>
  std::vector<T> download(const T* there, std::size_t count) {
    std::vector<T> seen(count);
    REQUIRE(device->copy(seen.data(), there, count * sizeof(T), stream).ok());
    finish();
    return seen;
  }

  /// True where the device has these bits at `there`.
  template <typename T>
  bool holds(const T* there, const std::vector<T>& values) {
    return std::memcmp(download(there, values.size()).data(), values.data(),
                       values.size() * sizeof(T)) == 0;
  }

  void finish() { REQUIRE(wait_on_host(*device->record(stream).value(), AbortToken()).ok()); }

  std::shared_ptr<DeviceOps> device = create_cuda_accelerator()->open(0).value();
  DeviceStream stream = device->open_stream().value();
  std::vector<std::shared_ptr<std::byte>> memory;
};

}  // namespace ronde::test
