#include "ops/algorithms.h"
#include "ops/partial.h"

namespace ronde {

Status binomial_reduce(Transport& transport, const FlatWork& work, Scratch& scratch) {
  const int size = transport.size();
  const int place = wrap(transport.rank() - work.root, size);
  const PartialReduction partial(work.reduction, work.kernels);
  const std::size_t count = work.bytes / partial.element();
  const std::size_t bytes = count * partial.width();
  std::byte* sum = scratch.block(0, bytes);
  const std::byte* mine = work.in;
  if (!partial.raw_is_partial()) {
    partial.load(work.in, sum, count);
    mine = sum;
  }
  for (int mask = 1; mask < size; mask *= 2) {
    if ((place & mask) != 0) {
      return send_to(transport, (place - mask + work.root) % size, {mine, bytes}, work.abort);
    }
    if (place + mask >= size) continue;
    std::byte* theirs = scratch.block(1, bytes);
    RONDE_RETURN_IF_ERROR(
        recv_from(transport, (place + mask + work.root) % size, {theirs, bytes}, work.abort));
    partial.merge(mine, theirs, sum, count);
    mine = sum;
  }
  partial.finish(mine, work.out, count);
  return {};
}

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
