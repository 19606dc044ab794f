// Device ranks whose device data plane is NCCL, or a fake of it.
#pragma once

#include <memory>
#include <utility>

#include "backends/nccl/factory.h"
#include "backends/nccl/library.h"
#include "tests/backends/cuda/device_ranks.h"
#include "tests/support/cuda_fake/cudart_fake.h"
#include "tests/support/cuda_fake/nccl_fake.h"

namespace ronde::test {

inline std::unique_ptr<DevicePlane> plane_of_double() {
  return create_nccl_plane([]() -> Result<nccl::Api> {
    const nccl::Api api = cuda_fake::nccl_fake();
    RONDE_RETURN_IF_ERROR(nccl::check_version(api));
    return api;
  });
}

/// A device for each rank: ranks are threads of one process here, in which freeing memory waits for
/// all that is queued on its device, peers' collectives included.
struct NcclFixture : DeviceFixture {
  NcclFixture() { cuda_fake::set_device_count(8); }
  ~NcclFixture() override { cuda_fake::set_device_count(2); }
  [[nodiscard]] int device_of(int rank) const override { return rank; }
  Result<std::unique_ptr<DeviceGroup>> open_plane(
      const GroupSpec& group, Exchange& exchange,
      std::shared_ptr<DeviceOps> device) const override {
    return plane_of_double()->open(group, exchange, std::move(device));
  }
};

}  // namespace ronde::test
