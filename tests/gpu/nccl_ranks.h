// Ranks on real devices, over the real NCCL.
#pragma once

#include <memory>
#include <utility>

#include "backends/nccl/factory.h"
#include "tests/gpu/gpu_ranks.h"

namespace ronde::test {

struct NcclGpuFixture : GpuFixture {
  Result<std::unique_ptr<Communicator>> open_plane(
      const GroupSpec& group, Exchange& exchange,
      std::shared_ptr<DeviceOps> device) const override {
    const auto backend = create_nccl_backend(ModuleOptions());
    RONDE_RETURN_IF_ERROR(backend->viable(group));
    GroupSpec on_device = group;
    on_device.device = std::move(device);
    return backend->open(on_device, exchange);
  }
};

}  // namespace ronde::test
