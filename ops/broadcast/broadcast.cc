#include <algorithm>
#include <vector>

#include "core/ports/phases.h"
#include "ops/algorithms.h"

namespace ronde {
namespace {

constexpr std::size_t kChainPieceBytes = std::size_t{256} << 10;

}  // namespace

Status binomial_broadcast(Transport& transport, const FlatWork& work, Scratch& /*scratch*/) {
  const int size = transport.size();
  const int place = wrap(transport.rank() - work.root, size);
  int mask = 1;
  while (mask < size && (place & mask) == 0) mask *= 2;
  const std::byte* data = work.in;
  if (place != 0) {
    data = work.out;
    RONDE_RETURN_IF_ERROR(recv_from(transport, (place - mask + work.root) % size,
                                    {work.out, work.bytes}, work.abort));
  }
  Posted sends(transport, work.abort);
  for (mask /= 2; mask > 0; mask /= 2) {
    if (place + mask >= size) continue;
    RONDE_RETURN_IF_ERROR(sends.send((place + mask + work.root) % size, {data, work.bytes}));
  }
  return sends.wait();
}

Status chain_broadcast(Transport& transport, const FlatWork& work, Scratch& /*scratch*/) {
  const int size = transport.size();
  const int me = transport.rank();
  const int place = wrap(me - work.root, size);
  const auto piece = [&](auto* base, std::size_t begin) {
    return std::span(base + begin, std::min(kChainPieceBytes, work.bytes - begin));
  };
  // All receives are posted at once, so that no piece waits for room.
  std::vector<TransferId> arriving;
  for (std::size_t begin = 0; place != 0 && begin < work.bytes; begin += kChainPieceBytes) {
    RONDE_ASSIGN_OR_RETURN(const TransferId id,
                           transport.recv(wrap(me - 1, size), piece(work.out, begin)));
    arriving.push_back(id);
  }
  const std::byte* data = place == 0 ? work.in : work.out;
  Posted sends(transport, work.abort);
  PhaseSteps steps(work.phases, "piece", (work.bytes + kChainPieceBytes - 1) / kChainPieceBytes);
  for (std::size_t begin = 0; begin < work.bytes; begin += kChainPieceBytes) {
    steps.next();
    if (place != 0) {
      RONDE_RETURN_IF_ERROR(transport.wait(arriving[begin / kChainPieceBytes], work.abort));
    }
    if (place + 1 < size) RONDE_RETURN_IF_ERROR(sends.send((me + 1) % size, piece(data, begin)));
  }
  return sends.wait();
}

}  // namespace ronde
