#include "core/ports/backend.h"

#include <algorithm>

namespace ronde {

std::size_t total_bytes(const Work& work) noexcept {
  std::size_t sum = 0;
  for (const Segment& segment : work.segments) sum += segment.bytes;
  return sum;
}

bool GroupSpec::on_one_host() const {
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](int r) { return topology->same_host(ranks.front(), r); });
}

}  // namespace ronde
