#include "ops/hierarchical/allreduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "ops/compression/compressed_allreduce.h"
#include "ops/execution/work_runner.h"
#include "ops/flat_work.h"
#include "ops/hierarchical/allgather.h"
#include "ops/hierarchical/broadcast.h"
#include "ops/hierarchical/levels.h"
#include "ops/hierarchical/reduce_scatter.h"
#include "ops/hierarchical/wire_thread.h"
#include "ops/partial.h"
#include "ops/selection/selector.h"
#include "ops/transfer.h"

namespace ronde {

namespace {

/// What of one segment lies in a slice. `begin` counts elements from the slice's beginning.
struct Piece {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t begin = 0;
  std::size_t count = 0;
  std::size_t segment = 0;
  std::size_t skipped = 0;  // elements of the segment before it
};

std::vector<Piece> pieces_of(std::span<const Segment> segments, const Part& slice,
                             std::size_t element) {
  std::vector<Piece> pieces;
  std::size_t at = 0;
  for (std::size_t index = 0; index < segments.size(); ++index) {
    const Segment& segment = segments[index];
    const std::size_t count = segment.bytes / element;
    const std::size_t begin = std::max(at, slice.begin);
    const std::size_t end = std::min(at + count, slice.begin + slice.count);
    if (begin < end) {
      const std::size_t skip = (begin - at) * element;
      pieces.push_back({segment.in == nullptr ? nullptr : segment.in + skip,
                        segment.out == nullptr ? nullptr : segment.out + skip, begin - slice.begin,
                        end - begin, index, begin - at});
    }
    at += count;
  }
  return pieces;
}

std::size_t overlap(const Piece& piece, const Part& part) {
  const std::size_t begin = std::max(piece.begin, part.begin);
  const std::size_t end = std::min(piece.begin + piece.count, part.begin + part.count);
  return begin < end ? end - begin : 0;
}

/// One slice of one allreduce and where this rank keeps its part of it.
struct Slice {
  std::vector<Piece> pieces;
  std::vector<Part> parts;  // by local rank; those beyond the lanes are empty
  std::byte* partial = nullptr;
  std::byte* result = nullptr;
  float* left = nullptr;  // what compression leaves over; null where that is not kept
};

class HierarchicalPlane final : public BackendGroup {
 public:
  explicit HierarchicalPlane(HierarchyOptions options)
      : layout_(std::move(options.layout)),
        kernels_(std::move(options.kernels)),
        tuned_(std::move(options.tuned)),
        algorithm_(options.deterministic ? kDeterministicAlgorithm : ""),
        slice_bytes_(options.slice_bytes),
        outer_(std::move(options.outer)),
        inner_(options.inner),
        lane_(*outer_->transport(), layout_.lane_members(), static_cast<int>(layout_.host)) {}

  bool supports(const WorkDesc& desc) const noexcept override {
    const bool any_order = algorithm_.empty();
    return desc.kind == Collective::kAllreduce || desc.kind == Collective::kBroadcast ||
           desc.kind == Collective::kAllgather ||
           (any_order && desc.kind == Collective::kReduceScatter);
  }
  Transport* transport() noexcept override { return outer_->transport(); }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    return outer_->allocate(bytes);
  }
  bool compresses() const noexcept override { return true; }
  bool polls() const noexcept override { return inner_.polls() && outer_->polls(); }
  Status run(const Work& work, const AbortToken& abort) override;

 private:
  Status run_slices(const Work& work, const AbortToken& abort, const AbortToken& wire_abort);
  void prepare(const Work& work);
  Slice slice(const Work& work, std::size_t index);
  Status reduce_inside(const Work& work, const Slice& slice, const AbortToken& abort);
  Status reduce_between(const Work& work, const Slice& slice, const AbortToken& abort);
  Status compress_between(const Work& work, const Slice& slice, const AbortToken& abort);
  Status gather_inside(const Work& work, const Slice& slice, const AbortToken& abort);
  Levels levels();
  std::vector<Segment> stage(const Work& work, const Slice& slice);

  [[nodiscard]] const Part& own_part(const Slice& slice) const {
    return slice.parts[static_cast<std::size_t>(layout_.local)];
  }
  [[nodiscard]] std::vector<std::size_t> chunk_bytes(std::span<const Piece> pieces,
                                                     const Slice& slice, std::size_t width) const;

  const HostLayout layout_;
  const std::shared_ptr<const ReduceKernels> kernels_;
  const std::vector<SelectionRow> tuned_;
  const std::string_view algorithm_;
  const std::size_t slice_bytes_;
  const std::unique_ptr<BackendGroup> outer_;
  WorkRunner inner_;
  SubTransport lane_;
  // Of the work at hand.
  std::size_t total_ = 0;  // elements
  std::size_t slices_ = 1;
  std::size_t lanes_ = 1;                // in use
  std::size_t width_ = 0;                // bytes of an element on its way
  double factor_ = 1.0;                  // of compressed work, which is not scaled elsewhere
  std::array<Slice, kInFlight> flying_;  // in use by the wire thread until it is drained
  Scratch own_;           // partials and results of slices in flight, and what is staged
  Scratch lane_scratch_;  // the wire thread's
  Scratch left_;          // of all slices, until the work is committed
  WireThread wire_;       // last: it uses the rest
};

Status HierarchicalPlane::run(const Work& agreed, const AbortToken& abort) {
  if (agreed.kind == Collective::kBroadcast) return hierarchical_broadcast(levels(), agreed, abort);
  if (agreed.kind == Collective::kAllgather) return hierarchical_allgather(levels(), agreed, abort);
  if (agreed.kind == Collective::kReduceScatter) {
    return hierarchical_reduce_scatter(levels(), agreed, abort);
  }
  Work work = agreed;
  if (work.compression != nullptr) {  // what is compressed is scaled already: see Residual
    factor_ = work.reduction.scaling.pre * work.reduction.scaling.post;
    work.reduction.scaling = {};
  }
  prepare(work);
  if (total_ == 0) return {};
  return with_wire(wire_, abort, [&](const AbortToken& wire_abort) {
    return run_slices(work, abort, wire_abort);
  });
}

Levels HierarchicalPlane::levels() {
  return {layout_, *outer_->transport(), inner_, *kernels_,   tuned_,
          own_,    lane_scratch_,        wire_,  slice_bytes_};
}

void HierarchicalPlane::prepare(const Work& work) {
  const std::size_t element = size_of(work.reduction.dtype);
  width_ = PartialReduction(work.reduction, *kernels_).width();
  total_ = total_bytes(work) / element;
  const auto lanes = std::max<std::size_t>(1, static_cast<std::size_t>(layout_.lanes()));
  slices_ = std::max<std::size_t>(1, (total_ * width_ + slice_bytes_ / 2) / slice_bytes_);
  lanes_ = total_ / slices_ * width_ < lanes * kWorthLaneBytes ? 1 : lanes;
}

Slice HierarchicalPlane::slice(const Work& work, std::size_t index) {
  const Part whole = even_part(total_, slices_, index);
  Slice made;
  made.pieces = pieces_of(work.segments, whole, size_of(work.reduction.dtype));
  made.parts = even_parts(whole.count, lanes_);
  made.parts.resize(layout_.hosts[layout_.host].size(), {whole.count, 0});
  const std::size_t room = (total_ / slices_ / lanes_ + 2) * width_;
  std::byte* memory = own_.block(0, 2 * kInFlight * room) + index % kInFlight * 2 * room;
  made.partial = memory;
  made.result = memory + room;
  const std::size_t kept = work.compression == nullptr ? 0 : work.compression->kept_floats();
  if (kept > 0) {
    const std::size_t most = (total_ / slices_ / lanes_ + 2) * kept;
    made.left =
        reinterpret_cast<float*>(left_.block(0, slices_ * most * sizeof(float))) + index * most;
  }
  return made;
}

Status HierarchicalPlane::run_slices(const Work& work, const AbortToken& abort,
                                     const AbortToken& wire_abort) {
  const auto begin = [&](std::size_t index) -> Status {
    Slice& next = flying_[index % kInFlight];
    next = slice(work, index);
    RONDE_RETURN_IF_ERROR(reduce_inside(work, next, abort));
    if (slices_ == 1) return reduce_between(work, next, abort);
    wire_.start(
        [this, &work, &next, &wire_abort] { return reduce_between(work, next, wire_abort); });
    return {};
  };
  for (std::size_t index = 0; index < std::min(slices_, kInFlight); ++index) {
    RONDE_RETURN_IF_ERROR(begin(index));
  }
  for (std::size_t index = 0; index < slices_; ++index) {
    if (slices_ > 1) RONDE_RETURN_IF_ERROR(wire_.wait(abort));
    RONDE_RETURN_IF_ERROR(gather_inside(work, flying_[index % kInFlight], abort));
    if (index + kInFlight < slices_) RONDE_RETURN_IF_ERROR(begin(index + kInFlight));
  }
  return {};
}

std::vector<std::size_t> HierarchicalPlane::chunk_bytes(std::span<const Piece> pieces,
                                                        const Slice& slice,
                                                        std::size_t width) const {
  std::vector<std::size_t> bytes;
  for (const Piece& piece : pieces) {
    for (const Part& part : slice.parts) bytes.push_back(overlap(piece, part) * width);
  }
  return bytes;
}

/// The slice as partials in memory of our own: one segment.
std::vector<Segment> HierarchicalPlane::stage(const Work& work, const Slice& slice) {
  const PartialReduction partial(work.reduction, *kernels_);
  std::size_t count = 0;
  for (const Piece& piece : slice.pieces) count += piece.count;
  std::byte* staged = own_.block(1, count * width_);
  for (const Piece& piece : slice.pieces) {
    std::byte* to = staged + piece.begin * width_;
    if (piece.in == nullptr) {
      std::memset(to, 0, piece.count * width_);
    } else {
      partial.load(piece.in, to, piece.count);
    }
  }
  return {{staged, slice.partial, count * width_}};
}

Status HierarchicalPlane::reduce_inside(const Work& work, const Slice& slice,
                                        const AbortToken& abort) {
  const Phase phase(work.phases, "reduce inside hosts");
  const PartialReduction partial(work.reduction, *kernels_);
  std::vector<Segment> segments;
  std::vector<std::size_t> bytes;
  if (partial.raw_is_partial()) {
    std::byte* to = slice.partial;
    for (const Piece& piece : slice.pieces) {
      segments.push_back({piece.in, to, piece.count * width_});
      to += overlap(piece, own_part(slice)) * width_;
    }
    bytes = chunk_bytes(slice.pieces, slice, width_);
  } else {
    segments = stage(work, slice);
    bytes = lengths_of(slice.parts, width_);
  }
  Work inside;
  inside.kind = Collective::kReduceScatter;
  inside.reduction = {partial.dtype(), work.reduction.op, {}};
  inside.segments = segments;
  inside.chunk_bytes = bytes;
  return run_inside(inner_, inside, abort);
}

Status HierarchicalPlane::reduce_between(const Work& work, const Slice& slice,
                                         const AbortToken& abort) {
  const std::size_t count = own_part(slice).count;
  if (count == 0) return {};
  PhaseObserver* const phases = beside(work.phases);
  const Phase phase(phases, "between hosts");
  if (work.compression != nullptr) return compress_between(work, slice, abort);
  const PartialReduction partial(work.reduction, *kernels_);
  FlatWork between{
      .kernels = *kernels_, .abort = abort, .reduction = {partial.dtype(), work.reduction.op, {}}};
  between.in = between.out = slice.partial;
  between.bytes = count * width_;
  between.phases = phases;
  RONDE_ASSIGN_OR_RETURN(
      const Algorithm* algorithm,
      select_algorithm(Collective::kAllreduce, between.bytes, lane_.size(), algorithm_, tuned_));
  try {
    RONDE_RETURN_IF_ERROR(algorithm->run(lane_, between, lane_scratch_));
  } catch (const std::bad_alloc&) {  // also in a thread of its own
    return {Code::kAborted, "out of memory between hosts"};
  }
  partial.finish(slice.partial, slice.result, count);
  return {};
}

Status HierarchicalPlane::compress_between(const Work& work, const Slice& slice,
                                           const AbortToken& abort) {
  const std::size_t element = size_of(work.reduction.dtype);
  const Part& own = own_part(slice);
  std::vector<CompressedPiece> pieces;
  std::size_t done = 0;
  for (const Piece& piece : slice.pieces) {
    const std::size_t count = overlap(piece, own);
    if (count == 0) continue;
    const std::size_t before = std::max(piece.begin, own.begin) - piece.begin;
    pieces.push_back({slice.partial + done * width_, slice.result + done * element, count,
                      piece.segment, piece.skipped + before});
    done += count;
  }
  const DType partial = PartialReduction(work.reduction, *kernels_).dtype();
  const CompressedAllreduce allreduce{.kernels = *kernels_,
                                      .abort = abort,
                                      .compression = *work.compression,
                                      .pieces = pieces,
                                      .in_dtype = partial,
                                      .out_dtype = work.reduction.dtype,
                                      .factor = factor_,
                                      .left = slice.left};
  try {
    return compressed_allreduce(lane_, allreduce, lane_scratch_);
  } catch (const std::bad_alloc&) {  // also in a thread of its own
    return {Code::kAborted, "out of memory between hosts"};
  }
}

Status HierarchicalPlane::gather_inside(const Work& work, const Slice& slice,
                                        const AbortToken& abort) {
  const Phase phase(work.phases, "gather inside hosts");
  const std::size_t element = size_of(work.reduction.dtype);
  std::vector<Segment> segments;
  const std::byte* from = slice.result;
  for (const Piece& piece : slice.pieces) {
    segments.push_back({from, piece.out, piece.count * element});
    from += overlap(piece, own_part(slice)) * element;
  }
  const std::vector<std::size_t> bytes = chunk_bytes(slice.pieces, slice, element);
  Work inside;
  inside.kind = Collective::kAllgather;
  inside.reduction.dtype = work.reduction.dtype;
  inside.segments = segments;
  inside.chunk_bytes = bytes;
  return run_inside(inner_, inside, abort);
}

}  // namespace

std::unique_ptr<BackendGroup> create_hierarchical_plane(HierarchyOptions options) {
  return std::make_unique<HierarchicalPlane>(std::move(options));
}

}  // namespace ronde
