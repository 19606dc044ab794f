// The factory of the shared-memory data plane: ranks of one host reduce and copy through memory
// that they share.
#pragma once

#include <cstdint>
#include <memory>

#include "core/ports/backend.h"
#include "core/ports/reduce_kernels.h"

namespace ronde {

/// When the kernel copies data from the peer's own memory.
enum class SingleCopy : std::uint8_t {
  kAuto,    ///< Where that is possible and faster.
  kAlways,  ///< Where it is possible.
  kNever,
};

/// How groups move large data. Ranks that differ in `single_copy` agree on the least.
struct ShmOptions {
  SingleCopy single_copy = SingleCopy::kAuto;
  bool arenas = true;      ///< True if allocate() gives memory that all ranks see.
  bool checksums = false;  ///< Of all data that ranks read; where all ranks want them.
};

/// The backend "shm". Its groups run every collective in shared memory and offer a Transport.
/// Nothing has a name in the file system, so nothing is left behind when a rank is killed.
/// Owns: a share of `kernels`, which do the arithmetic.
std::unique_ptr<Backend> create_shm_backend(std::shared_ptr<const ReduceKernels> kernels,
                                            ShmOptions options = {});

}  // namespace ronde
