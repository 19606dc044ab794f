// Ranks on real devices, over the real NCCL.
#pragma once

#include <memory>
#include <utility>

#include "backends/nccl/factory.h"
#include "tests/gpu/gpu_ranks.h"

namespace ronde::test {

struct NcclGpuFixture : GpuFixture {
  Result<std::unique_ptr<DeviceGroup>> open_plane(
      const GroupSpec& group, Exchange& exchange,
      std::shared_ptr<DeviceOps> device) const override {
    const auto plane = create_nccl_plane();
    RONDE_RETURN_IF_ERROR(plane->viable(group));
    return plane->open(group, exchange, std::move(device));
  }
};

}  // namespace ronde::test
