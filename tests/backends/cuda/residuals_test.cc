// Residuals in device memory.
#include "ops/compression/residuals.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "backends/cuda/device.h"
#include "tests/support/cuda_fake/cudart_fake.h"

namespace ronde::test {
namespace {

using cuda::CudaDevice;

struct HomeOnDevice {
  std::shared_ptr<CudaDevice> device = std::make_shared<CudaDevice>(0);
  DeviceStream stream = device->open_stream().value();
  AbortToken abort;

  float* take(Residual& residual) {
    auto memory = device->allocate(MemoryKind::kDevice, residual.bytes()).value();
    REQUIRE(residual.move_to({device, stream, std::move(memory)}, abort).ok());
    return residual.on_device(*device, stream);
  }
  void finish() const { cuda_fake::finish(static_cast<cudaStream_t>(stream)); }
};

}  // namespace

TEST_CASE("device residuals: a new one is zeros on the device, and what is written there counts") {
  HomeOnDevice home;
  Residual residual(3);
  CHECK(residual.on_device(*home.device, home.stream) == nullptr);
  float* const there = home.take(residual);
  REQUIRE(there != nullptr);
  CHECK(residual.values().value() == std::vector<float>(3, 0.0F));
  cuda_fake::enqueue(static_cast<cudaStream_t>(home.stream), [there] { there[1] = 2.0F; });
  CHECK(residual.values().value() == std::vector<float>{0, 2, 0});
  CHECK(residual.on_device(*home.device, home.stream) == there);  // a copy leaves it where it is
  CHECK(residual.bytes() == 12);
}

TEST_CASE("device residuals: values go to the device, to another stream of it, and back") {
  HomeOnDevice home;
  Residual residual(2);
  residual.assign(std::vector<float>{3, 4}, 0);
  const float* const there = home.take(residual);
  home.finish();
  CHECK(there[0] == 3.0F);
  HomeOnDevice other;
  CHECK(residual.on_device(*other.device, other.stream) == nullptr);
  const float* const moved = other.take(residual);
  other.finish();
  CHECK(moved[1] == 4.0F);
  REQUIRE(residual.move_to_host(other.abort).ok());
  CHECK(residual.on_device(*other.device, other.stream) == nullptr);
  std::vector<float> sums{1, 1};
  residual.add_to(sums, 0);
  CHECK(sums == std::vector<float>{4, 5});
}

TEST_CASE("device residuals: saving from a device that fails is an error") {
  HomeOnDevice home;
  ResidualStore store;
  const auto residual = store.find(0, "w", 4);
  (void)home.take(*residual);
  cuda_fake::fail_next("cudaMemcpyAsync", cudaErrorIllegalAddress);
  CHECK(store.save().status().code() == Code::kUnavailable);
  CHECK(store.save().value().size() == 1);
}

TEST_CASE("device residuals: their memory is given back with them") {
  const int before = cuda_fake::live_objects();
  {
    HomeOnDevice home;
    ResidualStore store;
    (void)home.take(*store.find(0, "w", 4));
    (void)store.find(0, "w", 5);  // of another size: the old one ends
    CHECK(store.find(0, "w", 5)->values().value() == std::vector<float>(5, 0.0F));
  }
  CHECK(cuda_fake::live_objects() == before);
}

}  // namespace ronde::test
