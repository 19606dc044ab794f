#include "backends/cuda/device.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "tests/support/cuda_fake/cudart_fake.h"

namespace ronde::test {
namespace {

using cuda::CudaDevice;

cudaStream_t native(DeviceStream stream) { return static_cast<cudaStream_t>(stream); }

/// Requires that nothing is left over from a test.
struct Tidy {
  ~Tidy() { CHECK(cuda_fake::live_objects() == 0); }
};

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

}  // namespace

TEST_CASE("CudaDevice: a stream's work runs in order, and an event says how far it is") {
  const Tidy tidy;
  CudaDevice device(1);
  const DeviceStream stream = device.open_stream().value();
  const auto in = counted(1000);
  std::vector<float> middle(1000);
  std::vector<float> out(1000);
  DeviceEventPtr event;
  {
    const cuda_fake::Hold hold(native(stream));
    REQUIRE(device.copy(middle.data(), in.data(), 4000, stream).ok());
    REQUIRE(device.copy(out.data(), middle.data(), 4000, stream).ok());
    event = device.record(stream).value();
    CHECK_FALSE(event->reached().value());
    CHECK(cudaGetLastError() == cudaSuccess);  // or the next launch would take it for its own
    CHECK(out[0] == 0.0F);
  }
  cuda_fake::finish(native(stream));
  CHECK(event->reached().value());
  CHECK(out == in);
}

TEST_CASE("CudaDevice: a stream waits for another's event") {
  const Tidy tidy;
  CudaDevice device(0);
  const DeviceStream first = device.open_stream().value();
  const DeviceStream second = device.open_stream().value();
  const float one = 1.0F;
  float middle = 0.0F;
  float out = 0.0F;
  {
    const cuda_fake::Hold hold(native(first));
    REQUIRE(device.copy(&middle, &one, 4, first).ok());
    const DeviceEventPtr event = device.record(first).value();
    REQUIRE(device.wait(second, *event).ok());
    REQUIRE(device.copy(&out, &middle, 4, second).ok());
  }
  cuda_fake::finish(native(second));
  CHECK(out == 1.0F);
}

TEST_CASE("CudaDevice: hundreds of copies are one launch, empty and absent ones included") {
  const Tidy tidy;
  CudaDevice device(0);
  const DeviceStream stream = device.open_stream().value();
  for (const std::size_t copies : {1U, 64U, 65U, 161U, 1000U}) {
    const auto in = counted(copies * 3);
    std::vector<float> out(in.size(), -1.0F);
    std::vector<DeviceCopy> work;
    for (std::size_t i = 0; i < copies; ++i) {
      const bool absent = i % 5 == 4;
      work.push_back(
          {absent ? nullptr : in.data() + 3 * i, out.data() + 3 * i, i % 3 == 2 ? 0U : 3U});
    }
    const int before = cuda_fake::launches();
    REQUIRE(device.transform({DType::kFloat32, DType::kFloat32, 0.5, work}, stream).ok());
    CHECK(cuda_fake::launches() == before + 1);
    cuda_fake::finish(native(stream));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t copy = i / 3;
      const float wanted = copy % 3 == 2 ? -1.0F : copy % 5 == 4 ? 0.0F : in[i] / 2;
      REQUIRE(out[i] == wanted);
    }
  }
}

TEST_CASE("CudaDevice: a fused copy may cast, and says which casts it has not") {
  const Tidy tidy;
  CudaDevice device(0);
  const DeviceStream stream = device.open_stream().value();
  const std::vector<float> in{1.0F, -2.5F};
  std::vector<std::uint16_t> half(2);
  const DeviceCopy copy{in.data(), half.data(), 2};
  REQUIRE(device.transform({DType::kFloat32, DType::kFloat16, 2.0, {&copy, 1}}, stream).ok());
  cuda_fake::finish(native(stream));
  CHECK(half == std::vector<std::uint16_t>{0x4000, 0xc500});
  const Status status = device.transform({DType::kInt8, DType::kBool, 1.0, {&copy, 1}}, stream);
  CHECK(status.code() == Code::kUnsupported);
  CHECK(status.message() == "no kernel casts int8 to bool");
}

TEST_CASE("CudaDevice: memory is not given back while the device uses it") {
  const Tidy tidy;
  CudaDevice device(0);
  const DeviceStream stream = device.open_stream().value();
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinned}) {
    auto memory = device.allocate(kind, 1 << 20).value();
    const std::vector<std::byte> in(1 << 20, std::byte{7});
    REQUIRE(device.copy(memory.get(), in.data(), in.size(), stream).ok());
    std::vector<std::byte> out(in.size());
    REQUIRE(device.copy(out.data(), memory.get(), in.size(), stream).ok());
    memory.reset();  // AddressSanitizer would object to what is still queued
    CHECK(out == in);
  }
}

TEST_CASE("CudaDevice: calls leave the current device alone") {
  const Tidy tidy;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CudaDevice device(1);
  const DeviceStream stream = device.open_stream().value();
  REQUIRE(device.record(stream).ok());
  int current = -1;
  REQUIRE(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 0);
  REQUIRE(device.make_current().ok());
  REQUIRE(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 1);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("CudaDevice: an error names the call and the device") {
  const Tidy tidy;
  CudaDevice device(1);
  const DeviceStream stream = device.open_stream().value();
  cuda_fake::fail_next("cudaMalloc", cudaErrorMemoryAllocation);
  const Status memory = device.allocate(MemoryKind::kDevice, 4096).status();
  CHECK(memory.code() == Code::kResourceExhausted);
  CHECK(memory.message() ==
        "no device memory for 4096 bytes: cudaMalloc on cuda:1: out of memory "
        "(cudaErrorMemoryAllocation)");
  cuda_fake::fail_next("cudaEventRecord", cudaErrorIllegalAddress);
  const Status event = device.record(stream).status();
  CHECK(event.code() == Code::kUnavailable);
  CHECK(event.message().rfind("cudaEventRecord on cuda:1: ", 0) == 0);
  const auto reached = device.record(stream).value();
  cuda_fake::fail_next("cudaEventQuery", cudaErrorECCUncorrectable);
  CHECK(reached->reached().status().message().rfind("cudaEventQuery on cuda:1: ", 0) == 0);
  char byte = 0;
  cuda_fake::fail_next("cudaMemcpyAsync", cudaErrorIllegalAddress);
  CHECK(device.copy(&byte, &byte, 1, stream).code() == Code::kUnavailable);
  cuda_fake::fail_next("cudaSetDevice", cudaErrorDevicesUnavailable);
  CHECK(device.open_stream().status().message().rfind("cudaSetDevice on cuda:1: ", 0) == 0);
}

}  // namespace ronde::test
