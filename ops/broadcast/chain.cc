#include <algorithm>
#include <vector>

#include "core/ports/phases.h"
#include "ops/algorithms.h"

namespace ronde {

namespace {
constexpr std::size_t kChainPieceBytes = std::size_t{256} << 10;
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
