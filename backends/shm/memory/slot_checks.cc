#include "backends/shm/memory/slot_checks.h"

#include <fmt/format.h>

namespace ronde::shm {

Status SlotChecks::describe(int writer, std::size_t bytes, PlaceInWork place) const {
  const auto name = [&](int rank) { return ranks_[static_cast<std::size_t>(rank)]; };
  return Status(Code::kCorrupted,
                fmt::format("data changed in shared memory between rank {} and rank {}: the {} "
                            "bytes from byte {} on have another checksum than was written",
                            name(writer), name(rank_), bytes, place.within))
      .in_tensor(place.segment);
}

}  // namespace ronde::shm
