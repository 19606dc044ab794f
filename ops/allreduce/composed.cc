#include "ops/algorithms.h"

namespace ronde {
namespace {

using Gather = Status (*)(Transport&, const FlatWork&, Scratch&);

constexpr std::size_t kFewStepsBytes = std::size_t{32} << 10;  // as the selector's for allgather

/// Reduces even chunks to their owners, then gathers them.
Status reduce_and_gather(ReduceChunks reduce, Gather gather, Transport& transport,
                         const FlatWork& work, Scratch& scratch) {
  const std::size_t element = size_of(work.reduction.dtype);
  const std::vector<Chunk> chunks =
      even_chunks(work.bytes / element, static_cast<std::size_t>(transport.size()));
  FlatWork step = work;
  step.out = work.out + chunks[static_cast<std::size_t>(transport.rank())].begin * element;
  RONDE_RETURN_IF_ERROR(reduce(transport, step, chunks, scratch));
  const std::vector<std::size_t> chunk_bytes = lengths_of(chunks, element);
  step.in = step.out;
  step.out = work.out;
  step.chunk_bytes = chunk_bytes;
  return gather(transport, step, scratch);
}

}  // namespace

Status ring_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch) {
  return reduce_and_gather(ring_reduce_chunks, ring_allgather, transport, work, scratch);
}

Status direct_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch) {
  const Gather gather = work.bytes <= kFewStepsBytes ? bruck_allgather : ring_allgather;
  return reduce_and_gather(direct_reduce_chunks, gather, transport, work, scratch);
}

Status tree_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch) {
  FlatWork step = work;
  step.root = 0;
  {
    const Phase up(work.phases, "reduce");
    RONDE_RETURN_IF_ERROR(binomial_reduce(transport, step, scratch));
  }
  step.in = step.out;
  const Phase down(work.phases, "broadcast");
  return binomial_broadcast(transport, step, scratch);
}

}  // namespace ronde
