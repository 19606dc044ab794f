#include <algorithm>

#include "core/ports/phases.h"
#include "ops/algorithms.h"

namespace ronde {

namespace {

// Chunks in the order in which a rank collects them: its own, then those of the ranks above.
std::vector<std::size_t> rotated(std::span<const std::size_t> chunks, int first) {
  std::vector<std::size_t> lengths(chunks.begin(), chunks.end());
  std::rotate(lengths.begin(), lengths.begin() + first, lengths.end());
  lengths.push_back(0);
  return lengths;
}

}  // namespace

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

Status bruck_allgather(Transport& transport, const FlatWork& work, Scratch& scratch) {
  const int me = transport.rank();
  const int size = transport.size();
  const auto count = static_cast<std::size_t>(size);
  std::byte* collected = scratch.block(0, work.bytes);
  const std::vector<std::size_t> lengths = rotated(work.chunk_bytes, me);
  const std::vector<std::size_t> begins = begins_of(lengths);
  copy_bytes(collected, work.in, lengths[0]);
  for (std::size_t have = 1; have < count; have *= 2) {
    const std::size_t more = std::min(have, count - have);
    const auto distance = static_cast<int>(have);
    const std::size_t into = begins[have];
    RONDE_RETURN_IF_ERROR(exchange(transport,
                                   {.to = wrap(me - distance, size),
                                    .data = {collected, begins[more]},
                                    .from = (me + distance) % size,
                                    .into = {collected + into, begins[have + more] - into}},
                                   work.abort));
  }
  const std::size_t wrapped = begins[count - static_cast<std::size_t>(me)];
  const std::size_t front = work.bytes - wrapped;  // chunks of ranks below this one come first
  copy_bytes(work.out + front, collected, wrapped);
  copy_bytes(work.out, collected + wrapped, front);
  return {};
}

}  // namespace ronde
