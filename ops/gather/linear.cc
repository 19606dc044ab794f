#include "ops/algorithms.h"

namespace ronde {
namespace {

// Sends all chunks but the root's own, whose place is returned in `own`.
Status send_parts(Transport& transport, const FlatWork& work, const std::byte*& own) {
  Posted chunks(transport, work.abort);
  const std::byte* place = work.in;
  for (int rank = 0; rank < transport.size(); ++rank) {
    const std::size_t bytes = work.chunk_bytes[static_cast<std::size_t>(rank)];
    if (rank == transport.rank()) {
      own = place;
    } else {
      RONDE_RETURN_IF_ERROR(chunks.send(rank, {place, bytes}));
    }
    place += bytes;
  }
  return chunks.wait();
}

}  // namespace

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

Status linear_scatter(Transport& transport, const FlatWork& work, Scratch& /*scratch*/) {
  const int me = transport.rank();
  const std::size_t bytes = work.chunk_bytes[static_cast<std::size_t>(me)];
  if (me != work.root) return recv_from(transport, work.root, {work.out, bytes}, work.abort);
  const std::byte* own = nullptr;
  RONDE_RETURN_IF_ERROR(send_parts(transport, work, own));
  copy_bytes(work.out, own, bytes);
  return {};
}

}  // namespace ronde
