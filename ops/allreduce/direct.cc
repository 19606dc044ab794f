#include "ops/allreduce/direct.h"

#include "ops/allgather/ring.h"
#include "ops/reduce_scatter/direct.h"

namespace ronde {

Status direct_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch) {
  const std::size_t element = size_of(work.reduction.dtype);
  const std::vector<Part> parts =
      even_parts(work.bytes / element, static_cast<std::size_t>(transport.size()));
  FlatWork step = work;
  step.out = work.out + parts[static_cast<std::size_t>(transport.rank())].begin * element;
  RONDE_RETURN_IF_ERROR(direct_reduce_parts(transport, step, parts, scratch));
  const std::vector<std::size_t> chunk_bytes = lengths_of(parts, element);
  step.in = step.out;
  step.out = work.out;
  step.chunk_bytes = chunk_bytes;
  return ring_allgather(transport, step, scratch);
}

}  // namespace ronde
