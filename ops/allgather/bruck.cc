#include <algorithm>

#include "ops/algorithms.h"

namespace ronde {

namespace {

// Parts in the order in which a rank collects them: its own first, then those of the ranks above.
std::vector<std::size_t> rotated(std::span<const std::size_t> chunks, int first) {
  std::vector<std::size_t> lengths(chunks.begin(), chunks.end());
  std::rotate(lengths.begin(), lengths.begin() + first, lengths.end());
  lengths.push_back(0);
  return lengths;
}

}  // namespace

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
