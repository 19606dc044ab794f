// Collectives that move values by reading the peers' inputs in place. Each ends with a step, so
// that no input changes before all have read it.
#include <span>
#include <vector>

#include "backends/shm/collectives/direct.h"

namespace ronde::shm {
namespace {

/// Copies a peer's bytes at `from` to `piece.out`.
Status copy_piece(const Place& place, Pull& pull, const Copier& copier, const std::byte* from,
                  const Segment& piece) {
  if (!place.in_mapped) return pull.add(from, piece.out, piece.bytes);
  copier.write(from, piece.out, piece.bytes);
  return {};
}

/// Copies the segments of rank `from`, from each one's start, to the outputs of `pieces`.
Status take_from(const Context& with, const Places& places, std::size_t from,
                 std::span<const Segment> pieces, const Copier& copier) {
  const Place& place = places.of(from);
  Pull pull(with.reach.pids[from], with.stop);
  for (std::size_t s = 0; s < pieces.size(); ++s) {
    if (pieces[s].bytes == 0 || pieces[s].out == nullptr) continue;
    RONDE_RETURN_IF_ERROR(copy_piece(place, pull, copier, place.segments[s].in, pieces[s]));
  }
  return pull.finish();
}

/// The announcement of a rank of which only inputs are read; empty if it is no source.
std::vector<Segment> inputs_of(std::span<const Segment> pieces, bool source) {
  std::vector<Segment> inputs(pieces.begin(), pieces.end());
  for (Segment& piece : inputs) {
    piece.out = const_cast<std::byte*>(piece.in);
    if (!source) piece.bytes = 0;
  }
  return inputs;
}

/// As favours_kernel: staging would copy all twice, and each rank reads from all others at once.
bool favours_kernel_exchange(const Context& with, std::size_t bytes) {
  return with.reach.always || (with.reach.kernel_pays && !streams(with, bytes));
}

}  // namespace

Result<bool> direct_gather(const Context& with, const Work& work, const Copier& copier,
                           bool reads) {
  const auto me = static_cast<std::size_t>(with.steps.rank());
  const auto& parts = with.scratch.chunks;
  RONDE_ASSIGN_OR_RETURN(
      const Places places,
      Places::exchange(with, inputs_of(parts[me], true), favours_kernel(with, total_bytes(work))));
  if (!places.usable()) return false;
  for (std::size_t i = 1; reads && i < parts.size(); ++i) {
    const std::size_t from = (me + i) % parts.size();
    RONDE_RETURN_IF_ERROR(take_from(with, places, from, parts[from], copier));
  }
  RONDE_RETURN_IF_ERROR(synchronise(with));
  return true;
}

Result<bool> direct_alltoall(const Context& with, const Parcels& parcels, const Copier& copier) {
  const auto me = static_cast<std::size_t>(with.steps.rank());
  const std::size_t ranks = parcels.sent.size();
  RONDE_ASSIGN_OR_RETURN(const Places places,
                         Places::exchange(with, inputs_of(parcels.sent, true),
                                          favours_kernel_exchange(with, ranks * parcels.largest)));
  if (!places.usable()) return false;
  for (std::size_t i = 1; i < ranks; ++i) {
    const std::size_t from = (me + i) % ranks;
    const Segment& piece = parcels.received[from];
    if (piece.bytes == 0 || piece.out == nullptr) continue;
    const Place& place = places.of(from);
    Pull pull(with.reach.pids[from], with.stop);
    RONDE_RETURN_IF_ERROR(copy_piece(place, pull, copier, place.segments[me].in, piece));
    RONDE_RETURN_IF_ERROR(pull.finish());
  }
  RONDE_RETURN_IF_ERROR(synchronise(with));
  return true;
}

}  // namespace ronde::shm
