// Checks the memory that a caller gives an operation, before anything reads or writes it.
#pragma once

#include <span>

#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "core/base/status.h"

namespace ronde {

/// One tensor of an operation, as its caller describes it.
struct TensorMemory {
  DType dtype;
  const Shape& shape;  ///< As in a request.
  const void* in;
  const void* out;  ///< Null: the operation allocates it.
};

/// The operation that uses the memory, on this rank.
struct MemoryUse {
  Collective kind;
  int ranks = 1;          ///< Of the process set, where ranks have chunks.
  int place = 0;          ///< This rank's among them.
  bool is_root = true;    ///< Of a rooted collective.
  bool allocates = true;  ///< Outputs without an address are allocated.
};

/// Checks addresses, and that nothing is written which is read or written elsewhere. In place, an
/// output is exactly its own input; for scatter and reduce_scatter it is this rank's own chunk of
/// it, and a rank may gather from its chunk of the output. Blocks: never; reads no tensor.
/// `tensors` have shapes that validate() allows. Errors: kInvalidArgument naming the tensor, its
/// shape and dtype, and what is allowed.
Status check_memory(const MemoryUse& use, std::span<const TensorMemory> tensors);

}  // namespace ronde
