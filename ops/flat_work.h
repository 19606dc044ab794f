// What an algorithm is given: agreed work (core/ports/communicator.h) over one flat buffer each
// way.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/abort.h"
#include "core/base/dtype.h"
#include "core/ports/phases.h"
#include "core/ports/reduce_kernels.h"

namespace ronde {

/// One collective over flat buffers; fields mean what they mean in Work with a single segment.
/// `in` and `out` are never null where they are read or written and not empty; `out` equal to `in`
/// means in place.
struct FlatWork {
  const ReduceKernels& kernels;
  const AbortToken& abort;
  Reduction reduction;
  int root = 0;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t bytes = 0;
  std::span<const std::size_t> chunk_bytes = {};
  std::span<const std::size_t> send_bytes = {};
  std::span<const std::size_t> recv_bytes = {};
  PhaseObserver* phases = nullptr;  ///< Is notified of phases; null: none are reported.
};

}  // namespace ronde
