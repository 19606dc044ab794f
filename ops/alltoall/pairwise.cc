#include <numeric>

#include "core/ports/phases.h"
#include "ops/algorithms.h"

namespace ronde {

namespace {

// The input, moved out of the way where the output would overwrite it.
const std::byte* readable_input(const FlatWork& work, Scratch& scratch) {
  if (work.in != work.out) return work.in;
  const std::size_t bytes =
      std::accumulate(work.send_bytes.begin(), work.send_bytes.end(), std::size_t{0});
  std::byte* copy = scratch.block(0, bytes);
  copy_bytes(copy, work.in, bytes);
  return copy;
}

}  // namespace

Status pairwise_alltoall(Transport& transport, const FlatWork& work, Scratch& scratch) {
  const int size = transport.size();
  const int me = transport.rank();
  const std::byte* in = readable_input(work, scratch);
  const std::vector<std::size_t> in_begins = begins_of(work.send_bytes);
  const std::vector<std::size_t> out_begins = begins_of(work.recv_bytes);
  const auto own = static_cast<std::size_t>(me);
  copy_bytes(work.out + out_begins[own], in + in_begins[own], work.send_bytes[own]);
  PhaseSteps steps(work.phases, "exchange step", static_cast<std::size_t>(size - 1));
  for (int step = 1; step < size; ++step) {
    steps.next();
    const auto to = static_cast<std::size_t>((me + step) % size);
    const auto from = static_cast<std::size_t>(wrap(me - step, size));
    RONDE_RETURN_IF_ERROR(exchange(transport,
                                   {.to = static_cast<int>(to),
                                    .data = {in + in_begins[to], work.send_bytes[to]},
                                    .from = static_cast<int>(from),
                                    .into = {work.out + out_begins[from], work.recv_bytes[from]}},
                                   work.abort));
  }
  return {};
}

}  // namespace ronde
