// Reduce-scatter without staging: each rank reduces its chunk straight from all ranks' inputs.
#include <vector>

#include "backends/shm/collectives/direct.h"
#include "backends/shm/collectives/own_chunk.h"

namespace ronde::shm {
namespace {

/// The start of each segment, which is that of the first rank's chunk.
std::vector<Segment> whole_inputs(const Scratch& scratch, const Work& work) {
  std::vector<Segment> inputs = scratch.chunks.front();
  for (std::size_t s = 0; s < inputs.size(); ++s) {
    inputs[s].out = const_cast<std::byte*>(inputs[s].in);
    inputs[s].bytes = work.segments[s].bytes;
  }
  return inputs;
}

/// The start of this rank's chunk in each segment.
std::vector<std::size_t> chunk_offsets(const Scratch& scratch, std::size_t me) {
  std::vector<std::size_t> offsets(scratch.chunks.front().size(), 0);
  for (std::size_t r = 0; r < me; ++r) {
    for (std::size_t s = 0; s < offsets.size(); ++s) offsets[s] += scratch.chunks[r][s].bytes;
  }
  return offsets;
}

}  // namespace

Result<bool> direct_reduce_scatter(const Context& with, const Work& work) {
  const auto me = static_cast<std::size_t>(with.steps.rank());
  const auto& parts = with.scratch.chunks;
  const std::size_t total = total_bytes(work);
  RONDE_ASSIGN_OR_RETURN(Places places, Places::exchange(with, whole_inputs(with.scratch, work),
                                                         favours_kernel(with, total)));
  if (!places.usable()) return false;
  places.advance_inputs(chunk_offsets(with.scratch, me));
  Share share{.own = Cursor(parts[me]), .streaming = streams(with, total)};
  for (const Segment& piece : parts[me]) share.bytes += piece.bytes;
  RONDE_RETURN_IF_ERROR(
      OwnChunk(with, work.reduction, places, share).run([](const Cursor&, std::size_t) {
        return Status();
      }));
  RONDE_RETURN_IF_ERROR(synchronise(with));
  return true;
}

}  // namespace ronde::shm
