// The door of the shared-memory data plane: ranks of one host that reduce and copy through memory
// they share.
#pragma once

#include <memory>

#include "core/ports/backend.h"
#include "core/ports/reduce_kernels.h"

namespace ronde {

/// The backend "shm". Its groups run every collective in shared memory and offer a Transport.
/// Nothing has a name in the file system, so nothing is left behind when a rank is killed.
/// Owns: a share of `kernels`, which do the arithmetic.
std::unique_ptr<Backend> create_shm_backend(std::shared_ptr<const ReduceKernels> kernels);

}  // namespace ronde
