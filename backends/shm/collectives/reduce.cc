// Collectives that combine values: reduce_scatter, and allreduce and reduce of small tensors.
#include <cstring>
#include <span>

#include "backends/shm/collectives/collectives.h"
#include "backends/shm/collectives/combiner.h"
#include "backends/shm/collectives/direct.h"

namespace ronde::shm {
namespace {

/// Larger reductions are shared between the ranks (two-shot). Their second synchronisation costs
/// more if ranks have to take turns on the cores.
constexpr std::size_t kOneShotBytes = std::size_t{8} << 10;
constexpr std::size_t kOneShotBytesCrowded = std::size_t{64} << 10;

/// Shows a result to the watch, and this rank's input if it is odd. All ranks see the same.
void watch_piece(const Context& with, const Cursor& at, const Segment& piece,
                 const std::byte* mine) {
  ValueWatch* const watch = with.watch;
  if (watch == nullptr) return;
  if (!watch->look_at_result(at.segment(), at.within(), piece.out, piece.bytes)) return;
  watch->look_at_input(with.steps.rank(), at.segment(), at.within(), mine, piece.bytes);
}

Status one_shot(const Context& with, const Work& work, bool deliver) {
  const Phase phase(with.phases, "one-shot");
  const Slices slices = cut(total_bytes(work), with.steps.slot_bytes());
  const Copier copier(false);
  const Combiner combiner(with, work, false);
  Cursor in(work.segments);
  Cursor out(work.segments);
  const auto write = [&](std::size_t, std::byte* slot) {
    write_part(with, 0, slot, slices.size, [&](std::size_t bytes, std::byte* to, Checksum* sum) {
      copier.copy_in(in, bytes, to, sum);
    });
    return Status();
  };
  const auto read = [&](std::size_t, Step step) {
    if (!deliver) return;
    std::size_t offset = 0;
    combiner.check(step, 0, offset, slices.size, place_of(out), /*own=*/true);
    out.take(slices.size, [&](const Segment& piece) {
      const std::byte* const mine = with.steps.slot(with.steps.rank(), step) + offset;
      if (piece.out != nullptr) {
        combiner.reduce(step, offset, mine, piece.out, piece.bytes);
        watch_piece(with, out, piece, mine);
      }
      offset += piece.bytes;
    });
  };
  return stream(with, slices.count, deliver ? kEverybody : kNobody, write, read);
}

bool overlap(const Segment& whole, std::size_t out_bytes) {
  if (whole.in == nullptr || whole.out == nullptr) return false;
  return whole.out < whole.in + whole.bytes && whole.in < whole.out + out_bytes;
}

/// Moves the inputs that this rank's output would overwrite to `scratch.copy`, and the addresses in
/// `scratch.chunks` with them.
void set_aside(const Work& work, int me, Scratch& scratch) {
  const std::size_t ranks = scratch.chunks.size();
  std::size_t needed = 0;
  for (const Segment& segment : work.segments) needed += segment.bytes;
  for (std::size_t s = 0; s < work.segments.size(); ++s) {
    const Segment& segment = work.segments[s];
    if (!overlap(segment, work.chunk_bytes[s * ranks + static_cast<std::size_t>(me)])) continue;
    if (scratch.copy.empty()) scratch.copy.reserve(needed);
    const std::byte* copy = scratch.copy.data() + scratch.copy.size();
    scratch.copy.insert(scratch.copy.end(), segment.in, segment.in + segment.bytes);
    for (auto& pieces : scratch.chunks) pieces[s].in = copy + (pieces[s].in - segment.in);
  }
}

}  // namespace

Status reduce_onto(const Context& with, const Work& work) {
  const bool deliver = !traits_of(work.kind).output.root_only || work.root == with.steps.rank();
  const std::size_t limit = with.steps.crowded() ? kOneShotBytesCrowded : kOneShotBytes;
  if (total_bytes(work) <= limit) return one_shot(with, work, deliver);
  if (work.kind == Collective::kAllreduce &&
      goes_direct(with, total_bytes(work), work.segments.size())) {
    return direct_allreduce(with, work);
  }
  return two_shot(with, work);
}

namespace {

/// Each rank stages the others' chunks, and reduces its own.
Status staged_reduce_scatter(const Context& with, const Work& work) {
  const auto me = static_cast<std::size_t>(with.steps.rank());
  const auto ranks = static_cast<std::size_t>(with.steps.ranks());
  const Slices slices = cut(longest_chunk(with.scratch), with.steps.slot_bytes() / ranks);
  const Copier copier(streams(with, total_bytes(work)));
  const Combiner combiner(with, work, streams(with, total_bytes(work)));
  const auto write = [&](std::size_t, std::byte* slot) {
    for (std::size_t r = 0; r < ranks; ++r) {
      if (r == me) continue;
      write_part(with, r, slot + r * slices.size, slices.size,
                 [&](std::size_t bytes, std::byte* to, Checksum* sum) {
                   copier.copy_in(with.scratch.cursors[r], bytes, to, sum);
                 });
    }
    return Status();
  };
  const auto read = [&](std::size_t, Step step) {
    std::size_t offset = me * slices.size;
    combiner.check(step, me, offset, slices.size, place_of(with.scratch.cursors[me]),
                   /*own=*/false);
    with.scratch.cursors[me].take(slices.size, [&](const Segment& piece) {
      std::byte* zeros = with.steps.slot(with.steps.rank(), step) + offset;
      if (piece.in == nullptr) std::memset(zeros, 0, piece.bytes);
      const std::byte* mine = piece.in == nullptr ? zeros : piece.in;
      if (piece.out != nullptr) combiner.reduce(step, offset, mine, piece.out, piece.bytes);
      offset += piece.bytes;
    });
  };
  return stream(with, slices.count, kEverybody, write, read);
}

Status reduce_chunks(const Context& with, const Work& work) {
  if (goes_direct(with, total_bytes(work), work.segments.size())) {
    RONDE_ASSIGN_OR_RETURN(const bool done, direct_reduce_scatter(with, work));
    if (done) return {};
  }
  return staged_reduce_scatter(with, work);
}

}  // namespace

Status reduce_scatter(const Context& with, const Work& work) {
  const Phase phase(with.phases, "reduce-scatter");
  split(work, with.steps.rank(), Extent::kWhole, Extent::kChunk, with.scratch);
  set_aside(work, with.steps.rank(), with.scratch);
  const Status done = reduce_chunks(with, work);
  with.scratch.copy = {};
  return done;
}

}  // namespace ronde::shm
