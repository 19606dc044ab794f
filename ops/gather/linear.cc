#include "ops/algorithms.h"

namespace ronde {

Status linear_gather(Transport& transport, const FlatWork& work, Scratch& /*scratch*/) {
  const int me = transport.rank();
  const std::size_t own = work.chunk_bytes[static_cast<std::size_t>(me)];
  if (me != work.root) return send_to(transport, work.root, {work.in, own}, work.abort);
  Posted chunks(transport, work.abort);
  std::byte* place = work.out;
  for (int rank = 0; rank < transport.size(); ++rank) {
    const std::size_t bytes = work.chunk_bytes[static_cast<std::size_t>(rank)];
    if (rank == me) {
      copy_bytes(place, work.in, own);
    } else {
      RONDE_RETURN_IF_ERROR(chunks.recv(rank, {place, bytes}));
    }
    place += bytes;
  }
  return chunks.wait();
}

}  // namespace ronde
