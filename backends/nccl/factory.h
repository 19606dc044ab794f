// NVIDIA's NCCL, for tensors in GPU memory.
#pragma once

#include <functional>
#include <memory>

#include "core/base/status.h"
#include "core/ports/device_plane.h"

namespace ronde {

namespace nccl {
struct Api;
}  // namespace nccl

/// The device data plane "nccl", over the NCCL of this process or machine.
std::unique_ptr<DevicePlane> create_nccl_plane();

/// The same over other entry points: tests pass a fake NCCL.
std::unique_ptr<DevicePlane> create_nccl_plane(std::function<Result<nccl::Api>()> load);

}  // namespace ronde
