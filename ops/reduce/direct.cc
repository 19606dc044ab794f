#include "ops/algorithms.h"

namespace ronde {

Status direct_reduce(Transport& transport, const FlatWork& work, Scratch& scratch) {
  const std::size_t element = size_of(work.reduction.dtype);
  const std::vector<Chunk> chunks =
      even_chunks(work.bytes / element, static_cast<std::size_t>(transport.size()));
  const std::vector<std::size_t> chunk_bytes = lengths_of(chunks, element);
  const auto me = static_cast<std::size_t>(transport.rank());
  FlatWork step = work;
  step.out = transport.rank() == work.root ? work.out + chunks[me].begin * element
                                           : scratch.block(2, chunk_bytes[me]);
  RONDE_RETURN_IF_ERROR(direct_reduce_chunks(transport, step, chunks, scratch));
  step.in = step.out;
  step.out = work.out;
  step.chunk_bytes = chunk_bytes;
  return linear_gather(transport, step, scratch);
}

}  // namespace ronde
