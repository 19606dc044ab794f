#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/hierarchical/levels.h"
#include "ops/hierarchical/slices.h"
#include "ops/partial.h"
#include "ops/transfer.h"

namespace ronde {
namespace {

std::size_t overlap(const SlicePiece& piece, const Chunk& chunk) {
  const std::size_t begin = std::max(piece.begin, chunk.begin);
  const std::size_t end = std::min(piece.begin + piece.count, chunk.begin + chunk.count);
  return begin < end ? end - begin : 0;
}

/// One slice, and where this rank keeps its own chunk of it.
struct HostSlice {
  std::vector<SlicePiece> pieces;
  std::vector<Chunk> chunks;  // by local rank; empty beyond the carriers
  std::byte* partial = nullptr;
  std::byte* result = nullptr;
};

/// The work as it is done inside hosts: a lossy communicator between them applies the factors.
Work inside_work(const Work& work, bool lossy) {
  Work inside = work;
  if (lossy) inside.reduction.scaling = {};
  return inside;
}

/// Ranks send so much between hosts at a time: less costs more messages than it saves.
constexpr std::size_t kStepBytes = std::size_t{512} << 10;

/// The bytes of most slices. Slices of lossy communicators are no smaller than need be, as each is
/// compressed by itself.
std::size_t slice_bytes(const Levels& levels, bool lossy) {
  const auto carriers = static_cast<std::size_t>(std::max(1, levels.layout.fewest_ranks()));
  const std::size_t enough = kStepBytes * carriers * levels.layout.hosts.size();
  return lossy ? levels.slice_bytes : std::min(levels.slice_bytes, enough);
}

/// One allreduce of host memory on one rank. The wire thread carries slices between hosts.
class Allreduce {
 public:
  Allreduce(const Levels& levels, Communicator& between, const Work& work)
      : levels_(levels),
        between_(between),
        factors_(work.reduction.scaling),
        work_(inside_work(work, between.traits().lossy)),
        partial_(work_.reduction, levels.kernels),
        element_(size_of(work.reduction.dtype)),
        width_(partial_.width()),
        total_(total_bytes(work) / element_),
        slices_(slice_count(total_ * width_, slice_bytes(levels, between.traits().lossy))) {
    const auto carriers =
        std::max<std::size_t>(1, static_cast<std::size_t>(levels.layout.fewest_ranks()));
    carriers_ = total_ / slices_ * width_ < carriers * kWorthSplittingBytes ? 1 : carriers;
  }

  Status run(const AbortToken& abort, const AbortToken& wire_abort) {
    abort_ = &abort;
    wire_abort_ = &wire_abort;
    return run_slices(slices_, *this);
  }

  Status reduce_inside(std::size_t index) {
    HostSlice& next = in_flight_[index % kInFlight];
    next = slice(index);
    RONDE_RETURN_IF_ERROR(reduce_inside(next));
    if (slices_ > 1) {
      levels_.wire.start([this, &next] { return reduce_between(next, *wire_abort_); });
    }
    return {};
  }
  Status reduce_between(std::size_t index) {
    if (slices_ > 1) return levels_.wire.wait(*abort_);
    return reduce_between(in_flight_[index % kInFlight], *abort_);
  }
  Status gather_inside(std::size_t index) { return gather_inside(in_flight_[index % kInFlight]); }

 private:
  HostSlice slice(std::size_t index);
  Status reduce_inside(const HostSlice& slice);
  Status reduce_between(const HostSlice& slice, const AbortToken& abort);
  Status carry_lossy(const HostSlice& slice, const AbortToken& abort);
  Status gather_inside(const HostSlice& slice);
  std::vector<Segment> stage(const HostSlice& slice);

  [[nodiscard]] const Chunk& own_chunk(const HostSlice& slice) const {
    return slice.chunks[static_cast<std::size_t>(levels_.layout.local)];
  }
  [[nodiscard]] std::vector<std::size_t> chunk_bytes(const HostSlice& slice,
                                                     std::size_t width) const;

  const Levels& levels_;
  Communicator& between_;
  const Scaling factors_;
  const Work work_;
  const PartialReduction partial_;
  const std::size_t element_;
  const std::size_t width_;  // bytes of an element between hosts
  const std::size_t total_;  // elements
  const std::size_t slices_;
  std::size_t carriers_ = 1;                    // local ranks that carry a chunk
  std::array<HostSlice, kInFlight> in_flight_;  // in use by the wire thread until it is drained
  const AbortToken* abort_ = nullptr;
  const AbortToken* wire_abort_ = nullptr;
};

HostSlice Allreduce::slice(std::size_t index) {
  const Chunk whole = slice_chunk(total_, slices_, index);
  HostSlice made;
  made.pieces = pieces_in(work_.segments, whole, element_);
  made.chunks = even_chunks(whole.count, carriers_);
  made.chunks.resize(levels_.layout.hosts[levels_.layout.host].size(), {whole.count, 0});
  const std::size_t room = (longest_slice(total_, slices_) / carriers_ + 1) * width_;
  std::byte* memory = levels_.scratch.block(0, 2 * kInFlight * room) + index % kInFlight * 2 * room;
  made.partial = memory;
  made.result = memory + room;
  return made;
}

std::vector<std::size_t> Allreduce::chunk_bytes(const HostSlice& slice, std::size_t width) const {
  std::vector<std::size_t> bytes;
  for (const SlicePiece& piece : slice.pieces) {
    for (const Chunk& chunk : slice.chunks) bytes.push_back(overlap(piece, chunk) * width);
  }
  return bytes;
}

/// The slice as partials in memory of our own: one segment.
std::vector<Segment> Allreduce::stage(const HostSlice& slice) {
  std::size_t count = 0;
  for (const SlicePiece& piece : slice.pieces) count += piece.count;
  std::byte* staged = levels_.scratch.block(1, count * width_);
  for (const SlicePiece& piece : slice.pieces) {
    std::byte* to = staged + piece.begin * width_;
    if (piece.in == nullptr) {
      std::memset(to, 0, piece.count * width_);
    } else {
      partial_.load(piece.in, to, piece.count);
    }
  }
  return {{staged, slice.partial, count * width_}};
}

Status Allreduce::reduce_inside(const HostSlice& slice) {
  const Phase phase(work_.phases, "reduce inside hosts");
  std::vector<Segment> segments;
  std::vector<std::size_t> bytes;
  if (partial_.raw_is_partial()) {
    std::byte* to = slice.partial;
    for (const SlicePiece& piece : slice.pieces) {
      segments.push_back({piece.in, to, piece.count * width_});
      to += overlap(piece, own_chunk(slice)) * width_;
    }
    bytes = chunk_bytes(slice, width_);
  } else {
    segments = stage(slice);
    bytes = lengths_of(slice.chunks, width_);
  }
  Work inside;
  inside.kind = Collective::kReduceScatter;
  inside.reduction = partial_.sums();
  inside.segments = segments;
  inside.chunk_bytes = bytes;
  return run_inside(levels_.inner, inside, *abort_);
}

Status Allreduce::reduce_between(const HostSlice& slice, const AbortToken& abort) {
  const std::size_t count = own_chunk(slice).count;
  if (count == 0) return {};
  PhaseObserver* const phases = beside(work_.phases);
  const Phase phase(phases, "between hosts");
  if (between_.traits().lossy) return carry_lossy(slice, abort);
  const bool wide = width_ != element_;
  const Segment segment{slice.partial, wide ? slice.partial : slice.result, count * width_};
  Work between;
  between.kind = Collective::kAllreduce;
  between.reduction = wide ? partial_.sums() : partial_.last_sums();
  between.segments = {&segment, 1};
  between.bytes = segment.bytes;
  between.phases = phases;
  RONDE_RETURN_IF_ERROR(between_.run(between, kNoStream, abort));
  if (wide) partial_.finish(slice.partial, slice.result, count);
  return {};
}

/// Each piece is a segment, so that losses find their tensor. Partials that are wider
/// than the tensors are rounded here.
Status Allreduce::carry_lossy(const HostSlice& slice, const AbortToken& abort) {
  const Chunk& own = own_chunk(slice);
  const bool wide = width_ != element_;
  std::vector<Segment> segments;
  std::vector<SegmentOrigin> origins;
  std::size_t done = 0;
  for (const SlicePiece& piece : slice.pieces) {
    const std::size_t count = overlap(piece, own);
    if (count == 0) continue;
    const std::size_t before = std::max(piece.begin, own.begin) - piece.begin;
    std::byte* const in = slice.partial + done * width_;
    segments.push_back({in, wide ? in : slice.result + done * width_, count * width_});
    origins.push_back({piece.segment, piece.skipped + before});
    done += count;
  }
  Work between;
  between.kind = Collective::kAllreduce;
  between.reduction = {partial_.dtype(), work_.reduction.op, factors_};
  between.segments = segments;
  between.bytes = done * width_;
  between.origins = origins;
  RONDE_RETURN_IF_ERROR(between_.run(between, kNoStream, abort));
  if (wide) partial_.finish(slice.partial, slice.result, done);
  return {};
}

Status Allreduce::gather_inside(const HostSlice& slice) {
  const Phase phase(work_.phases, "gather inside hosts");
  std::vector<Segment> segments;
  const std::byte* from = slice.result;
  for (const SlicePiece& piece : slice.pieces) {
    segments.push_back({from, piece.out, piece.count * element_});
    from += overlap(piece, own_chunk(slice)) * element_;
  }
  const std::vector<std::size_t> bytes = chunk_bytes(slice, element_);
  Work inside;
  inside.kind = Collective::kAllgather;
  inside.reduction.dtype = work_.reduction.dtype;
  inside.segments = segments;
  inside.chunk_bytes = bytes;
  return run_inside(levels_.inner, inside, *abort_);
}

}  // namespace

Status hierarchical_allreduce(const Levels& levels, Communicator& between, const Work& work,
                              const AbortToken& abort) {
  if (total_bytes(work) == 0) return {};
  Allreduce allreduce(levels, between, work);
  return with_wire(levels.wire, abort,
                   [&](const AbortToken& wire_abort) { return allreduce.run(abort, wire_abort); });
}

}  // namespace ronde
