#include "ops/algorithms.h"

namespace ronde {

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

}  // namespace ronde
