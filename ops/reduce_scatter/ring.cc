#include "ops/reduce_scatter/ring.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/ports/phases.h"
#include "ops/partial.h"

namespace ronde {

namespace {

constexpr std::size_t kSliceBytes = std::size_t{512} << 10;
constexpr std::size_t kWorthOverlap = std::size_t{128} << 10;
constexpr std::size_t kLanes = 2;  // while one slice is combined, another one moves

// One slice of every part on its way around the ring.
struct Lane {
  std::array<std::byte*, 2> buffers{};  // taken in by turns: what arrives, and what leaves
  TransferId sending = 0;
  TransferId receiving = 0;
};

// The walk of all slices around the ring. Lane l carries slices l, l + 2, l + 4, ...; a tick is one
// step of one slice.
class Walk {
 public:
  Walk(Transport& transport, const FlatWork& work, std::span<const Part> parts, Scratch& scratch)
      : transport_(transport),
        work_(work),
        parts_(parts),
        partial_(work.reduction, work.kernels),
        me_(transport.rank()),
        size_(transport.size()),
        steps_(static_cast<std::size_t>(size_ - 1)) {
    std::size_t longest = 0;
    for (const Part& part : parts) longest = std::max(longest, part.count);
    const std::size_t bytes = longest * partial_.width();
    slices_ = std::max<std::size_t>(bytes > kWorthOverlap ? kLanes : 1,
                                    (bytes + kSliceBytes - 1) / kSliceBytes);
    const std::size_t room = (longest / slices_ + 1) * partial_.width();
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      std::byte* memory = scratch.block(lane, 2 * room);
      lanes_[lane].buffers = {memory, memory + room};
    }
  }

  Status run() {
    const std::size_t ticks = (slices_ + kLanes - 1) / kLanes * steps_;
    PhaseSteps told(work_.phases, "reduce-scatter step", ticks);
    for (std::size_t tick = 0; tick <= ticks; ++tick) {
      if (tick < ticks) told.next();
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        if (tick > 0) RONDE_RETURN_IF_ERROR(finish(lane, tick - 1));
        if (tick < ticks) RONDE_RETURN_IF_ERROR(start(lane, tick));
      }
    }
    return {};
  }

 private:
  std::size_t slice_at(std::size_t lane, std::size_t tick) const {
    return lane + kLanes * (tick / steps_);
  }
  int step_at(std::size_t tick) const { return static_cast<int>(tick % steps_); }

  Part slice_of(int part, std::size_t slice) const {
    const Part& whole = parts_[static_cast<std::size_t>(wrap(part, size_))];
    const Part inner = even_part(whole.count, slices_, slice);
    return {whole.begin + inner.begin, inner.count};
  }

  const std::byte* input(const Part& part) const {
    return work_.in + part.begin * partial_.element();
  }

  // What this rank sends at a step: its own input first, then what it has just combined.
  const std::byte* outgoing(const Lane& lane, const Part& part, int step) const {
    if (step > 0) return lane.buffers[static_cast<std::size_t>((step + 1) % 2)];
    if (partial_.raw_is_partial()) return input(part);
    partial_.load(input(part), lane.buffers[1], part.count);
    return lane.buffers[1];
  }

  Status start(std::size_t index, std::size_t tick) {
    const std::size_t slice = slice_at(index, tick);
    if (slice >= slices_) return {};
    Lane& lane = lanes_[index];
    const int step = step_at(tick);
    const Part give = slice_of(me_ - step - 1, slice);
    const Part take = slice_of(me_ - step - 2, slice);
    std::byte* arriving = lane.buffers[static_cast<std::size_t>(step % 2)];
    RONDE_ASSIGN_OR_RETURN(
        lane.receiving,
        transport_.recv(wrap(me_ - 1, size_), {arriving, take.count * partial_.width()}));
    RONDE_ASSIGN_OR_RETURN(
        lane.sending, transport_.send((me_ + 1) % size_,
                                      {outgoing(lane, give, step), give.count * partial_.width()}));
    return {};
  }

  Status finish(std::size_t index, std::size_t tick) {
    const std::size_t slice = slice_at(index, tick);
    if (slice >= slices_) return {};
    const Lane& lane = lanes_[index];
    const int step = step_at(tick);
    RONDE_RETURN_IF_ERROR(transport_.wait(lane.receiving, work_.abort));
    combine(slice, step, lane.buffers[static_cast<std::size_t>(step % 2)]);
    return transport_.wait(lane.sending, work_.abort);
  }

  void combine(std::size_t slice, int step, std::byte* arrived) {
    const Part part = slice_of(me_ - step - 2, slice);
    if (step + 2 < size_) {
      partial_.fold(arrived, input(part), arrived, part.count);
      return;
    }
    const std::size_t begin = part.begin - parts_[static_cast<std::size_t>(me_)].begin;
    partial_.finish_fold(arrived, input(part), work_.out + begin * partial_.element(), part.count);
  }

  Transport& transport_;
  const FlatWork& work_;
  std::span<const Part> parts_;
  PartialReduction partial_;
  const int me_;
  const int size_;
  const std::size_t steps_;
  std::size_t slices_ = 1;
  std::array<Lane, kLanes> lanes_;
};

}  // namespace

Status ring_reduce_parts(Transport& transport, const FlatWork& work, std::span<const Part> parts,
                         Scratch& scratch) {
  return Walk(transport, work, parts, scratch).run();
}

Status ring_reduce_scatter(Transport& transport, const FlatWork& work, Scratch& scratch) {
  const std::vector<Part> parts = parts_of(work.chunk_bytes, size_of(work.reduction.dtype));
  if (work.out != work.in) return ring_reduce_parts(transport, work, parts, scratch);
  // In place the result begins where other parts are still to be read.
  const std::size_t own = work.chunk_bytes[static_cast<std::size_t>(transport.rank())];
  FlatWork aside = work;
  aside.out = scratch.block(2, own);
  RONDE_RETURN_IF_ERROR(ring_reduce_parts(transport, aside, parts, scratch));
  copy_bytes(work.out, aside.out, own);
  return {};
}

}  // namespace ronde
