// NVIDIA's NCCL, for tensors in GPU memory.
#pragma once

#include <functional>
#include <memory>

#include "core/base/status.h"
#include "core/ports/backend.h"
#include "core/ports/backend_module.h"

namespace ronde {

namespace nccl {
struct Api;
}  // namespace nccl

/// The backend "nccl", over the NCCL of this process or machine.
std::unique_ptr<Backend> create_nccl_backend(const ModuleOptions& options);

/// Uses other entry points than the library's: tests pass a fake NCCL.
std::unique_ptr<Backend> create_nccl_backend(std::function<Result<nccl::Api>()> load);

}  // namespace ronde
