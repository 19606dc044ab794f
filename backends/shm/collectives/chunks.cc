#include "backends/shm/collectives/chunks.h"

#include <algorithm>

namespace ronde::shm {
namespace {

template <typename Byte>
Byte* address(Byte* base, Extent extent, std::size_t offset, bool mine) {
  if (base == nullptr || extent == Extent::kNone) return nullptr;
  if (extent == Extent::kWhole) return base + offset;
  return mine ? base : nullptr;
}

void restart(Scratch& scratch) {
  scratch.cursors.clear();
  for (const auto& pieces : scratch.chunks) scratch.cursors.emplace_back(pieces);
}

}  // namespace

void split(const Work& work, int me, Extent in, Extent out, Scratch& scratch) {
  const std::size_t ranks = scratch.chunks.size();
  for (auto& pieces : scratch.chunks) pieces.clear();
  for (std::size_t s = 0; s < work.segments.size(); ++s) {
    const Segment& segment = work.segments[s];
    std::size_t offset = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      const bool mine = r == static_cast<std::size_t>(me);
      const std::size_t bytes = work.chunk_bytes[s * ranks + r];
      scratch.chunks[r].push_back({.in = address(segment.in, in, offset, mine),
                                   .out = address(segment.out, out, offset, mine),
                                   .bytes = bytes});
      offset += bytes;
    }
  }
  restart(scratch);
}

std::size_t longest_chunk(const Scratch& scratch) noexcept {
  std::size_t longest = 0;
  for (const auto& pieces : scratch.chunks) {
    std::size_t bytes = 0;
    for (const Segment& piece : pieces) bytes += piece.bytes;
    longest = std::max(longest, bytes);
  }
  return longest;
}

}  // namespace ronde::shm
