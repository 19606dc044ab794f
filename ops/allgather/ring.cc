#include "core/ports/phases.h"
#include "ops/algorithms.h"

namespace ronde {

Status ring_allgather(Transport& transport, const FlatWork& work, Scratch& /*scratch*/) {
  const int me = transport.rank();
  const int size = transport.size();
  const std::vector<std::size_t> begins = begins_of(work.chunk_bytes);
  const auto chunk = [&](int rank) {
    const auto index = static_cast<std::size_t>(wrap(rank, size));
    return std::span(work.out + begins[index], work.chunk_bytes[index]);
  };
  copy_bytes(chunk(me).data(), work.in, chunk(me).size());
  PhaseSteps steps(work.phases, "allgather step", static_cast<std::size_t>(size - 1));
  for (int step = 0; step + 1 < size; ++step) {
    steps.next();
    RONDE_RETURN_IF_ERROR(exchange(transport,
                                   {.to = (me + 1) % size,
                                    .data = chunk(me - step),
                                    .from = wrap(me - 1, size),
                                    .into = chunk(me - step - 1)},
                                   work.abort));
  }
  return {};
}

}  // namespace ronde
