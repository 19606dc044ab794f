#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "ops/communicator/algorithm.h"
#include "ops/device/device_parts.h"
#include "ops/hierarchical/levels.h"
#include "ops/hierarchical/slices.h"
#include "ops/memory/device_wait.h"
#include "ops/memory/memory.h"
#include "ops/transfer.h"

namespace ronde {
namespace {

constexpr std::size_t kChunkAlignment = 64;

/// Factors by level: sums of floating types are multiplied before anything is added, as NCCL does
/// it, so that none overflows.
struct LevelScaling {
  Scaling inside;
  Scaling between;
};

LevelScaling split(const Reduction& reduction) {
  const auto [pre, post] = reduction.scaling;
  if (is_floating(reduction.dtype) && reduction.op == ReduceOp::kSum) return {{pre, post}, {}};
  return {{pre, 1.0}, {1.0, post}};
}

/// "tcp" of "tcp, shm inside hosts": levels of the host's communicator are not used here.
std::string_view outer_name(std::string_view name) { return name.substr(0, name.find(',')); }

/// Allreduces are those of the ranks inside; everything else is the whole group's, where it has
/// one.
SupportTable supported_by(const DeviceParts& parts) {
  return SupportTable::of([&](Collective kind, DType dtype, ReduceOp op) {
    const Communicator* const by =
        kind == Collective::kAllreduce ? parts.inside.get() : parts.whole.get();
    return by != nullptr && by->traits().supports.has(kind, dtype, op);
  });
}

/// One slice, in bytes.
struct DeviceSlice {
  std::size_t begin = 0;
  std::size_t bytes = 0;
  std::vector<std::size_t> chunks;  // by local rank; empty beyond the carriers
  std::size_t own_begin = 0;        // of this rank's chunk
  std::size_t own_bytes = 0;
};

/// The levels of one rank. Views all of it.
struct DeviceLevels {
  DeviceOps& device;
  Communicator& inside;
  Communicator& between;  ///< Among the peers, in host memory.
  const HostLayout& layout;
  HostMemory& pinned;
  std::size_t slice_bytes;
};

/// One allreduce of device memory on one rank. All slices go through one stream. While the calling
/// thread carries a slice between hosts, the device has the next one to reduce.
class DeviceAllreduce {
 public:
  DeviceAllreduce(const DeviceLevels& levels, const Work& work, DeviceStream stream,
                  const AbortToken& abort)
      : levels_(levels),
        work_(work),
        stream_(stream),
        abort_(abort),
        scaling_(split(work.reduction)),
        element_(size_of(work.reduction.dtype)),
        count_(work.segments.front().bytes / element_) {
    const auto carriers = static_cast<std::size_t>(levels.layout.fewest_ranks());
    carriers_ = count_ * element_ < carriers * kWorthSplittingBytes ? 1 : carriers;
    // Whole chunks, so that only the last slice has uneven ones.
    slice_count_ = std::max<std::size_t>(1, levels.slice_bytes / element_ / carriers_) * carriers_;
    const std::size_t most = (std::min(count_, slice_count_) / carriers_ + 1) * element_;
    const std::size_t room = (most + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
    std::byte* const memory = levels.pinned.at_least(kInFlight * room, levels.device);
    for (std::size_t i = 0; i < kInFlight; ++i) slots_[i] = memory + i * room;
  }

  Status run() { return run_slices((count_ + slice_count_ - 1) / slice_count_, *this); }

  /// Queues one slice's reduction, then the copy of this rank's chunk to the host.
  Status reduce_inside(std::size_t index) {
    const DeviceSlice part = slice(index);
    const Segment& all = work_.segments.front();
    std::byte* const own = all.out + part.begin + part.own_begin;
    const Segment segment{all.in + part.begin, own, part.bytes};
    const Reduction reduction{work_.reduction.dtype, work_.reduction.op, scaling_.inside};
    RONDE_RETURN_IF_ERROR(run_inside(Collective::kReduceScatter, reduction, segment, part));
    if (part.own_bytes == 0) return {};
    RONDE_RETURN_IF_ERROR(
        levels_.device.copy(slots_[index % kInFlight], own, part.own_bytes, stream_));
    RONDE_ASSIGN_OR_RETURN(arrived_[index % kInFlight], levels_.device.record(stream_));
    return {};
  }

  /// Reduces this rank's chunk of a slice between hosts, then queues the copy back.
  Status reduce_between(std::size_t index) {
    const DeviceSlice part = slice(index);
    if (part.own_bytes == 0) return {};
    std::byte* const slot = slots_[index % kInFlight];
    RONDE_RETURN_IF_ERROR(wait_on_host(*arrived_[index % kInFlight], abort_));
    const Segment segment{slot, slot, part.own_bytes};
    Work between;
    between.kind = Collective::kAllreduce;
    between.reduction = {work_.reduction.dtype, work_.reduction.op, scaling_.between};
    between.segments = {&segment, 1};
    between.bytes = part.own_bytes;
    RONDE_RETURN_IF_ERROR(levels_.between.run(between, kNoStream, abort_));
    std::byte* const own = work_.segments.front().out + part.begin + part.own_begin;
    return levels_.device.copy(own, slot, part.own_bytes, stream_);
  }

  Status gather_inside(std::size_t index) {
    const DeviceSlice part = slice(index);
    std::byte* const out = work_.segments.front().out + part.begin;
    const Segment segment{out + part.own_begin, out, part.bytes};
    return run_inside(Collective::kAllgather, {work_.reduction.dtype, ReduceOp::kSum, {}}, segment,
                      part);
  }

 private:
  [[nodiscard]] DeviceSlice slice(std::size_t index) const {
    const std::size_t begin = index * slice_count_;
    const std::size_t count = std::min(slice_count_, count_ - begin);
    const auto local = static_cast<std::size_t>(levels_.layout.local);
    DeviceSlice made{begin * element_, count * element_, {}, count * element_, 0};
    made.chunks = lengths_of(even_chunks(count, carriers_), element_);
    made.chunks.resize(levels_.layout.hosts[levels_.layout.host].size(), 0);
    made.own_begin = begins_of(made.chunks)[local];
    made.own_bytes = made.chunks[local];
    return made;
  }

  Status run_inside(Collective kind, const Reduction& reduction, const Segment& segment,
                    const DeviceSlice& part) {
    Work inside;
    inside.kind = kind;
    inside.reduction = reduction;
    inside.segments = {&segment, 1};
    inside.chunk_bytes = part.chunks;
    inside.bytes = segment.bytes;
    return levels_.inside.run(inside, stream_, abort_);
  }

  const DeviceLevels& levels_;
  const Work& work_;
  const DeviceStream stream_;
  const AbortToken& abort_;
  const LevelScaling scaling_;
  const std::size_t element_;
  const std::size_t count_;      // elements
  std::size_t carriers_ = 1;     // local ranks that carry a chunk between hosts
  std::size_t slice_count_ = 1;  // elements of a slice
  std::array<std::byte*, kInFlight> slots_{};
  std::array<DeviceEventPtr, kInFlight> arrived_;
};

class DeviceHierarchical final : public Communicator {
 public:
  DeviceHierarchical(DeviceParts parts, AlgorithmCommunicator& host, std::size_t slice_bytes)
      : Communicator(
            {.name = fmt::format("{} inside hosts, {} between", parts.inside->traits().name,
                                 outer_name(host.traits().name)),
             .supports = supported_by(parts),
             .memory = DeviceKind::kCuda}),
        device_(std::move(parts.device)),
        inside_(std::move(parts.inside)),
        whole_(std::move(parts.whole)),
        layout_(std::move(parts.layout)),
        slice_bytes_(slice_bytes),
        peers_(*host.transport(), layout_.peers(), static_cast<int>(layout_.host)),
        between_(host.among(peers_)) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes, DeviceStream stream) override {
    return inside_->allocate(bytes, stream);
  }

  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override {
    if (work.kind != Collective::kAllreduce) return whole_->run(work, stream, abort);
    const DeviceLevels levels{*device_, *inside_, *between_, layout_, pinned_, slice_bytes_};
    return DeviceAllreduce(levels, work, stream, abort).run();
  }

 private:
  const std::shared_ptr<DeviceOps> device_;
  const std::unique_ptr<Communicator> inside_;
  const std::unique_ptr<Communicator> whole_;
  const HostLayout layout_;
  const std::size_t slice_bytes_;
  SubTransport peers_;
  const std::unique_ptr<Communicator> between_;
  HostMemory pinned_;
};

}  // namespace

std::unique_ptr<Communicator> create_device_hierarchical(DeviceParts parts,
                                                         AlgorithmCommunicator& host,
                                                         std::size_t slice_bytes) {
  return std::make_unique<DeviceHierarchical>(std::move(parts), host, slice_bytes);
}

}  // namespace ronde
