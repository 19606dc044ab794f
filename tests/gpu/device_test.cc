// The device layer on a real GPU: the kernels' bits, the order of streams, memory.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cuda/factory.h"
#include "core/base/abort.h"
#include "ops/kernels/factory.h"
#include "ops/memory/device_wait.h"

namespace ronde::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::array kTypes{DType::kUint8,   DType::kInt8,    DType::kInt16,    DType::kInt32,
                            DType::kInt64,   DType::kFloat16, DType::kBfloat16, DType::kFloat32,
                            DType::kFloat64, DType::kBool};

/// The first device with a stream, and copies to it and back.
struct Gpu {
  std::shared_ptr<DeviceOps> device = create_cuda_accelerator()->open(0).value();
  DeviceStream stream = device->open_stream().value();

  std::shared_ptr<std::byte> upload(const Bytes& bytes) {
    auto memory = device->allocate(MemoryKind::kDevice, bytes.size() + 64).value();
    REQUIRE(device->copy(memory.get(), bytes.data(), bytes.size(), stream).ok());
    return memory;
  }
  Bytes download(const std::byte* from, std::size_t bytes) {
    Bytes made(bytes);
    REQUIRE(device->copy(made.data(), from, bytes, stream).ok());
    finish();
    return made;
  }
  void finish() { REQUIRE(wait_on_host(*device->record(stream).value(), AbortToken()).ok()); }
};

/// Values that every type holds, small enough for no cast to saturate.
Bytes values_of(DType dtype, std::size_t count) {
  std::vector<float> numbers(count);
  std::mt19937 random(7);
  for (float& number : numbers) number = static_cast<float>(random() % 100);
  Bytes made(count * size_of(dtype));
  create_kernels()->cast(DType::kFloat32, numbers.data(), dtype, made.data(), count);
  return made;
}

}  // namespace

TEST_CASE("gpu: a scaled copy of hundreds of copies has the bits of the CPU, for every type") {
  Gpu gpu;
  constexpr std::size_t kCopies = 161;
  for (const DType dtype : kTypes) {
    for (const double factor : {1.0, 0.3, 2.0}) {
      CAPTURE(to_string(dtype));
      CAPTURE(factor);
      std::vector<DeviceCopy> copies;
      std::size_t count = 0;
      const Bytes in = values_of(dtype, 2'000'000);
      const auto from = gpu.upload(in);
      const auto to = gpu.upload(Bytes(in.size()));
      for (std::size_t i = 0; i < kCopies; ++i) {
        const std::size_t length = 1 + i * i * 37 % 20'011;
        copies.push_back(
            {from.get() + count * size_of(dtype), to.get() + count * size_of(dtype), length});
        count += length;
      }
      REQUIRE(gpu.device->transform({dtype, dtype, factor, copies}, gpu.stream).ok());
      const Bytes got = gpu.download(to.get(), count * size_of(dtype));
      Bytes wanted(got.size());
      const void* const input = in.data();
      create_kernels()->reduce({dtype, ReduceOp::kSum, {factor, 1.0}}, {&input, 1}, wanted.data(),
                               count);
      CHECK(got == wanted);
    }
  }
}

TEST_CASE("gpu: casts between floating types have the bits of the CPU") {
  Gpu gpu;
  constexpr std::size_t kCount = 65'537;
  for (const DType wide : {DType::kFloat32, DType::kFloat64}) {
    for (const DType narrow : {DType::kFloat16, DType::kBfloat16}) {
      for (const bool down : {true, false}) {
        const DType from = down ? wide : narrow;
        const DType to = down ? narrow : wide;
        const Bytes in = values_of(from, kCount);
        const auto source = gpu.upload(in);
        const auto target = gpu.upload(Bytes(kCount * size_of(to)));
        const DeviceCopy copy{source.get(), target.get(), kCount};
        REQUIRE(gpu.device->transform({from, to, 1.0, {&copy, 1}}, gpu.stream).ok());
        Bytes wanted(kCount * size_of(to));
        create_kernels()->cast(from, in.data(), to, wanted.data(), kCount);
        CHECK(gpu.download(target.get(), wanted.size()) == wanted);
      }
    }
  }
}

TEST_CASE("gpu: a copy is exact at every alignment, and an absent input is zeros") {
  Gpu gpu;
  const Bytes in = values_of(DType::kUint8, 300'000);
  const auto from = gpu.upload(in);
  for (const std::size_t offset : {0U, 1U, 4U, 16U}) {
    const auto to = gpu.upload(Bytes(in.size(), std::byte{0xcd}));
    const std::size_t length = in.size() - 100;
    const DeviceCopy copies[] = {{from.get() + offset, to.get(), length},
                                 {nullptr, to.get() + length, 50}};
    REQUIRE(gpu.device->transform({.copies = copies}, gpu.stream).ok());
    Bytes wanted(in.begin() + static_cast<std::ptrdiff_t>(offset),
                 in.begin() + static_cast<std::ptrdiff_t>(offset + length));
    wanted.resize(length + 50, std::byte{0});
    wanted.resize(in.size(), std::byte{0xcd});
    CHECK(gpu.download(to.get(), in.size()) == wanted);
  }
}

TEST_CASE("gpu: a stream waits for another's event") {
  Gpu gpu;
  const DeviceStream second = gpu.device->open_stream().value();
  const Bytes in = values_of(DType::kUint8, 64 << 20);
  const auto pinned = gpu.device->allocate(MemoryKind::kPinned, in.size()).value();
  std::memcpy(pinned.get(), in.data(), in.size());
  const auto middle = gpu.upload(Bytes(in.size()));
  const auto out = gpu.upload(Bytes(in.size()));
  gpu.finish();
  REQUIRE(gpu.device->copy(middle.get(), pinned.get(), in.size(), gpu.stream).ok());
  const DeviceEventPtr event = gpu.device->record(gpu.stream).value();
  REQUIRE(gpu.device->wait(second, *event).ok());
  REQUIRE(gpu.device->copy(out.get(), middle.get(), in.size(), second).ok());
  REQUIRE(wait_on_host(*gpu.device->record(second).value(), AbortToken()).ok());
  CHECK(gpu.download(out.get(), in.size()) == in);
}

TEST_CASE("gpu: more memory than there is, is an error that leaves the device usable") {
  Gpu gpu;
  const Status status = gpu.device->allocate(MemoryKind::kDevice, std::size_t{1} << 50).status();
  CHECK(status.code() == Code::kResourceExhausted);
  CHECK(gpu.device->allocate(MemoryKind::kDevice, 1 << 20).ok());
}

}  // namespace ronde::test
