// The one list of the backends of this build.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backends/registry.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"
#include "core/ports/device_ops.h"
#include "core/ports/reduce_kernels.h"

namespace ronde {

/// The arguments of the backends.
struct BackendDeps {
  const Config& config;
  std::shared_ptr<const ReduceKernels> kernels;
  std::unique_ptr<Backend> tcp;  ///< Already made, over the control channel. May be null.
  /// Gloo and MPI as their own programs call them, where an abort may not reach: for bench.
  bool unprotected = false;
};

/// The names that `--backend` and RONDE_BACKEND accept: "auto, shm, ...".
std::string backend_names();

/// Ok for names in backend_names(), also of backends that this build lacks.
/// Errors: kInvalidArgument naming the setting, the value and what is allowed.
Status check_backend(std::string_view name);

/// Adds every backend, in the order in which `auto` prefers them; those that this build lacks are
/// remembered with the reason. Cheap: libraries are loaded when first asked about.
void register_builtin_backends(Registry& registry, BackendDeps deps);

/// Loads what tensors in device memory need. Blocks: while a library initialises.
/// Errors: kUnavailable saying why this build lacks it, or the linker's message.
Result<std::shared_ptr<Accelerator>> load_builtin_accelerator();

}  // namespace ronde
