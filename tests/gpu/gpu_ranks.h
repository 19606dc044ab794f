// One rank of the conformance suite: a process of `ronde run` with tensors in device memory. The
// devices are real, or those of the fake CUDA runtime.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <utility>

#include "backends/cuda/factory.h"
#include "backends/shm/factory.h"
#include "core/ports/communicator.h"
#include "ops/kernels/factory.h"
#include "tests/conformance/conformance.h"
#include "tests/gpu/moved_tensors.h"
#include "tests/gpu/process_world.h"

namespace ronde::test {

/// Ranks with tensors in host memory, over shared memory.
struct ProcessFixture : ConformanceFixture {
  void run(int, const RankBody& body) override {
    const auto backend = create_shm_backend(create_kernels());
    ProcessWorld& world = ProcessWorld::instance();
    const GroupSpec group = world.group();
    body(group.rank, *backend, group, world.exchange());
  }
  [[nodiscard]] std::vector<int> rank_counts() const override {
    return {ProcessWorld::instance().size()};
  }
};

/// The same on devices, rank i on device i modulo their number. Staged work runs over shared
/// memory.
struct GpuFixture : ProcessFixture {
  /// RONDE_TEST_DRIVER names the library of CUDA's driver. The fake accepts any library.
  [[nodiscard]] static std::shared_ptr<DeviceOps> device_of(int rank) {
    const auto accelerator = create_cuda_accelerator(RONDE_TEST_DRIVER);
    const auto devices = accelerator->count();
    REQUIRE_MESSAGE(devices.ok(), devices.status().to_string());
    return accelerator->open(rank % *devices).value();
  }
  /// The communicator of device work; null: device work is staged.
  virtual Result<std::unique_ptr<Communicator>> open_plane(const GroupSpec&, Exchange&,
                                                           std::shared_ptr<DeviceOps>) const {
    return std::unique_ptr<Communicator>();
  }
  std::unique_ptr<Executor> make_executor(ExecutorOptions options, const GroupSpec& group,
                                          Exchange& exchange) const override {
    auto ops = device_of(group.rank);
    options.open_device = [this, group, &exchange, ops](int) -> Result<DeviceParts> {
      RONDE_ASSIGN_OR_RETURN(auto plane, open_plane(group, exchange, ops));
      return DeviceParts{ops, std::move(plane)};
    };
    auto inner = ProcessFixture::make_executor(std::move(options), group, exchange);
    return std::make_unique<OnRealDevice>(std::move(inner), ops, group.size());
  }
};

}  // namespace ronde::test
