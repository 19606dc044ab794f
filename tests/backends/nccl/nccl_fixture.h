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

inline std::unique_ptr<Backend> fake_nccl() {
  return create_nccl_backend([]() -> Result<nccl::Api> {
    const nccl::Api api = cuda_fake::nccl_fake();
    RONDE_RETURN_IF_ERROR(nccl::check_version(api));
    return api;
  });
}

/// Opens it for `group` on a device.
inline Result<std::unique_ptr<Communicator>> open_fake(GroupSpec group, Exchange& exchange,
                                                       std::shared_ptr<DeviceOps> device) {
  group.device = std::move(device);
  return fake_nccl()->open(group, exchange);
}

/// A device for each rank: ranks are threads of one process here, in which freeing memory waits for
/// all that is queued on its device, peers' collectives included.
struct NcclFixture : DeviceFixture {
  NcclFixture() { cuda_fake::set_device_count(8); }
  ~NcclFixture() override { cuda_fake::set_device_count(2); }
  [[nodiscard]] int device_of(int rank) const override { return rank; }
  Result<std::unique_ptr<Communicator>> open_plane(
      const GroupSpec& group, Exchange& exchange,
      std::shared_ptr<DeviceOps> device) const override {
    return open_fake(group, exchange, std::move(device));
  }
};

}  // namespace ronde::test
