#include "ops/algorithms.h"

namespace ronde {

Status dissemination_barrier(Transport& transport, const FlatWork& work, Scratch& /*scratch*/) {
  const int me = transport.rank();
  const int size = transport.size();
  for (int distance = 1; distance < size; distance *= 2) {
    const Exchanged signals{(me + distance) % size, {}, wrap(me - distance, size), {}};
    RONDE_RETURN_IF_ERROR(exchange(transport, signals, work.abort));
  }
  return {};
}

}  // namespace ronde
