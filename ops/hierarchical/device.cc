#include "ops/hierarchical/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "ops/device/device_wait.h"
#include "ops/device/growing_memory.h"
#include "ops/hierarchical/levels.h"
#include "ops/transfer.h"

namespace ronde {
namespace {

constexpr std::size_t kPartAlignment = 64;

/// Factors by level: sums of floating types are multiplied before anything is added, as the device
/// data plane does it, so that none overflows.
struct LevelScaling {
  Scaling inside;
  Scaling between;
};

LevelScaling split(const Reduction& reduction) {
  const auto [pre, post] = reduction.scaling;
  if (is_floating(reduction.dtype) && reduction.op == ReduceOp::kSum) return {{pre, post}, {}};
  return {{pre, 1.0}, {1.0, post}};
}

/// "tcp" of "tcp, shm inside hosts": what the host's plane has of levels is not used here.
std::string_view outer_name(std::string_view plane) { return plane.substr(0, plane.find(',')); }

/// All pieces go through one stream, in an order that is the same on all ranks of a host. While the
/// calling thread carries a piece between hosts, the device has the next one to reduce.
class HierarchicalGroup final : public DeviceGroup {
 public:
  HierarchicalGroup(DeviceParts parts, WorkRunner& host, std::size_t piece_bytes)
      : device_(std::move(parts.device)),
        inside_(std::move(parts.inside)),
        whole_(std::move(parts.plane)),
        layout_(std::move(parts.layout)),
        piece_bytes_(piece_bytes),
        host_(host),
        lane_(*host.transport(), layout_.lane_members(), static_cast<int>(layout_.host)),
        name_(fmt::format("{} inside hosts, {} between", inside_->name(),
                          outer_name(host.plane_name()))) {}

  bool supports(const WorkDesc& desc) const noexcept override {
    if (desc.kind == Collective::kAllreduce) return inside_->supports(desc);
    return whole_ != nullptr && whole_->supports(desc);
  }
  std::string_view name() const noexcept override { return name_; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes, DeviceStream stream) override {
    return inside_->allocate(bytes, stream);
  }

  Status launch(const Work& work, DeviceStream stream, const AbortToken& abort) override {
    if (work.kind != Collective::kAllreduce) return whole_->launch(work, stream, abort);
    prepare(work);
    for (std::size_t i = 0; i < std::min(pieces_, kInFlight); ++i) {
      RONDE_RETURN_IF_ERROR(reduce_inside(work, i, stream, abort));
    }
    for (std::size_t i = 0; i < pieces_; ++i) {
      RONDE_RETURN_IF_ERROR(reduce_between(work, i, stream, abort));
      RONDE_RETURN_IF_ERROR(gather_inside(work, i, stream, abort));
      if (i + kInFlight < pieces_) {
        RONDE_RETURN_IF_ERROR(reduce_inside(work, i + kInFlight, stream, abort));
      }
    }
    return {};
  }

 private:
  /// One piece, in bytes.
  struct Piece {
    std::size_t begin = 0;
    std::size_t bytes = 0;
    std::vector<std::size_t> parts;  // by local rank; those beyond the lanes are empty
    std::size_t own_begin = 0;       // of this rank's part
    std::size_t own_bytes = 0;
  };

  void prepare(const Work& work) {
    element_ = size_of(work.reduction.dtype);
    count_ = work.segments.front().bytes / element_;
    const auto lanes = static_cast<std::size_t>(layout_.lanes());
    lanes_ = count_ * element_ < lanes * kWorthLaneBytes ? 1 : lanes;
    // Whole parts, so that only the last piece has uneven ones.
    piece_count_ = std::max<std::size_t>(1, piece_bytes_ / element_ / lanes_) * lanes_;
    pieces_ = (count_ + piece_count_ - 1) / piece_count_;
    const std::size_t most = (std::min(count_, piece_count_) / lanes_ + 1) * element_;
    const std::size_t room = (most + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
    std::byte* const memory = pinned_.at_least(kInFlight * room, *device_);
    for (std::size_t i = 0; i < kInFlight; ++i) slots_[i] = memory + i * room;
  }

  [[nodiscard]] Piece piece(std::size_t index) const {
    const std::size_t begin = index * piece_count_;
    const std::size_t count = std::min(piece_count_, count_ - begin);
    const auto local = static_cast<std::size_t>(layout_.local);
    Piece made{begin * element_, count * element_, {}, count * element_, 0};
    made.parts = lengths_of(even_parts(count, lanes_), element_);
    made.parts.resize(layout_.hosts[layout_.host].size(), 0);
    made.own_begin = begins_of(made.parts)[local];
    made.own_bytes = made.parts[local];
    return made;
  }

  /// Queues one piece's reduction, and its way to the host.
  Status reduce_inside(const Work& work, std::size_t index, DeviceStream stream,
                       const AbortToken& abort) {
    const Piece part = piece(index);
    const Segment& all = work.segments.front();
    std::byte* const own = all.out + part.begin + part.own_begin;
    const Segment segment{all.in + part.begin, own, part.bytes};
    const Reduction reduction{work.reduction.dtype, work.reduction.op,
                              split(work.reduction).inside};
    RONDE_RETURN_IF_ERROR(
        launch_inside(Collective::kReduceScatter, reduction, segment, part, stream, abort));
    if (part.own_bytes == 0) return {};
    RONDE_RETURN_IF_ERROR(device_->copy(slots_[index % kInFlight], own, part.own_bytes, stream));
    RONDE_ASSIGN_OR_RETURN(arrived_[index % kInFlight], device_->record(stream));
    return {};
  }

  /// Carries this rank's part of a piece between hosts, and queues its way back.
  Status reduce_between(const Work& work, std::size_t index, DeviceStream stream,
                        const AbortToken& abort) {
    const Piece part = piece(index);
    if (part.own_bytes == 0) return {};
    std::byte* const slot = slots_[index % kInFlight];
    RONDE_RETURN_IF_ERROR(wait_on_host(*arrived_[index % kInFlight], abort));
    FlatWork between{
        .kernels = host_.kernels(),
        .abort = abort,
        .reduction = {work.reduction.dtype, work.reduction.op, split(work.reduction).between}};
    between.in = between.out = slot;
    between.bytes = part.own_bytes;
    RONDE_RETURN_IF_ERROR(host_.allreduce_among(lane_, between));
    std::byte* const own = work.segments.front().out + part.begin + part.own_begin;
    return device_->copy(own, slot, part.own_bytes, stream);
  }

  Status gather_inside(const Work& work, std::size_t index, DeviceStream stream,
                       const AbortToken& abort) {
    const Piece part = piece(index);
    std::byte* const out = work.segments.front().out + part.begin;
    const Segment segment{out + part.own_begin, out, part.bytes};
    return launch_inside(Collective::kAllgather, {work.reduction.dtype, ReduceOp::kSum, {}},
                         segment, part, stream, abort);
  }

  Status launch_inside(Collective kind, const Reduction& reduction, const Segment& segment,
                       const Piece& part, DeviceStream stream, const AbortToken& abort) {
    Work inside;
    inside.kind = kind;
    inside.reduction = reduction;
    inside.segments = {&segment, 1};
    inside.chunk_bytes = part.parts;
    return inside_->launch(inside, stream, abort);
  }

  const std::shared_ptr<DeviceOps> device_;
  const std::unique_ptr<DeviceGroup> inside_;
  const std::unique_ptr<DeviceGroup> whole_;
  const HostLayout layout_;
  const std::size_t piece_bytes_;
  WorkRunner& host_;
  SubTransport lane_;
  const std::string name_;
  // Of the work at hand, in elements.
  std::size_t element_ = 1;
  std::size_t count_ = 0;
  std::size_t lanes_ = 1;  // in use
  std::size_t piece_count_ = 1;
  std::size_t pieces_ = 0;
  HostMemory pinned_;
  std::array<std::byte*, kInFlight> slots_{};
  std::array<DeviceEventPtr, kInFlight> arrived_;
};

}  // namespace

std::unique_ptr<DeviceGroup> create_hierarchical_group(DeviceParts parts, WorkRunner& host,
                                                       std::size_t piece_bytes) {
  return std::make_unique<HierarchicalGroup>(std::move(parts), host, piece_bytes);
}

}  // namespace ronde
