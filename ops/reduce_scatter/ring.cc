#include <algorithm>
#include <array>
#include <vector>

#include "core/ports/phases.h"
#include "ops/algorithms.h"
#include "ops/partial.h"

namespace ronde {

namespace {

constexpr std::size_t kSliceBytes = std::size_t{512} << 10;
constexpr std::size_t kWorthOverlap = std::size_t{128} << 10;
constexpr std::size_t kOverlap = 2;  // while one slice is combined, another one moves

// One slice of every chunk that moves around the ring.
struct Moving {
  std::array<std::byte*, 2> buffers{};  // take turns: one receives, one is sent
  TransferId sending = 0;
  TransferId receiving = 0;
};

// Moves all slices around the ring. Place i carries slices i, i + 2, i + 4, ...; a tick is one
// step of one slice.
class RingReduce {
 public:
  RingReduce(Transport& transport, const FlatWork& work, std::span<const Chunk> chunks,
             Scratch& scratch)
      : transport_(transport),
        work_(work),
        chunks_(chunks),
        partial_(work.reduction, work.kernels),
        me_(transport.rank()),
        size_(transport.size()),
        steps_(static_cast<std::size_t>(size_ - 1)) {
    std::size_t longest = 0;
    for (const Chunk& chunk : chunks) longest = std::max(longest, chunk.count);
    const std::size_t bytes = longest * partial_.width();
    slices_ = std::max<std::size_t>(bytes > kWorthOverlap ? kOverlap : 1,
                                    (bytes + kSliceBytes - 1) / kSliceBytes);
    const std::size_t room = (longest / slices_ + 1) * partial_.width();
    for (std::size_t place = 0; place < kOverlap; ++place) {
      std::byte* memory = scratch.block(place, 2 * room);
      moving_[place].buffers = {memory, memory + room};
    }
  }

  Status run() {
    const std::size_t ticks = (slices_ + kOverlap - 1) / kOverlap * steps_;
    PhaseSteps steps(work_.phases, "reduce-scatter step", ticks);
    for (std::size_t tick = 0; tick <= ticks; ++tick) {
      if (tick < ticks) steps.next();
      for (std::size_t place = 0; place < kOverlap; ++place) {
        if (tick > 0) RONDE_RETURN_IF_ERROR(finish(place, tick - 1));
        if (tick < ticks) RONDE_RETURN_IF_ERROR(start(place, tick));
      }
    }
    return {};
  }

 private:
  std::size_t slice_at(std::size_t place, std::size_t tick) const {
    return place + kOverlap * (tick / steps_);
  }
  int step_at(std::size_t tick) const { return static_cast<int>(tick % steps_); }

  Chunk slice_of(int chunk, std::size_t slice) const {
    const Chunk& whole = chunks_[static_cast<std::size_t>(wrap(chunk, size_))];
    const Chunk inner = even_chunk(whole.count, slices_, slice);
    return {whole.begin + inner.begin, inner.count};
  }

  const std::byte* input(const Chunk& chunk) const {
    return work_.in + chunk.begin * partial_.element();
  }

  // A rank sends its own input first, then the sum of the step before.
  const std::byte* outgoing(const Moving& moving, const Chunk& chunk, int step) const {
    if (step > 0) return moving.buffers[static_cast<std::size_t>((step + 1) % 2)];
    if (partial_.raw_is_partial()) return input(chunk);
    partial_.load(input(chunk), moving.buffers[1], chunk.count);
    return moving.buffers[1];
  }

  Status start(std::size_t index, std::size_t tick) {
    const std::size_t slice = slice_at(index, tick);
    if (slice >= slices_) return {};
    Moving& moving = moving_[index];
    const int step = step_at(tick);
    const Chunk give = slice_of(me_ - step - 1, slice);
    const Chunk take = slice_of(me_ - step - 2, slice);
    std::byte* arriving = moving.buffers[static_cast<std::size_t>(step % 2)];
    RONDE_ASSIGN_OR_RETURN(
        moving.receiving,
        transport_.recv(wrap(me_ - 1, size_), {arriving, take.count * partial_.width()}));
    RONDE_ASSIGN_OR_RETURN(moving.sending,
                           transport_.send((me_ + 1) % size_, {outgoing(moving, give, step),
                                                               give.count * partial_.width()}));
    return {};
  }

  Status finish(std::size_t index, std::size_t tick) {
    const std::size_t slice = slice_at(index, tick);
    if (slice >= slices_) return {};
    const Moving& moving = moving_[index];
    const int step = step_at(tick);
    RONDE_RETURN_IF_ERROR(transport_.wait(moving.receiving, work_.abort));
    combine(slice, step, moving.buffers[static_cast<std::size_t>(step % 2)]);
    return transport_.wait(moving.sending, work_.abort);
  }

  void combine(std::size_t slice, int step, std::byte* arrived) {
    const Chunk chunk = slice_of(me_ - step - 2, slice);
    if (step + 2 < size_) {
      partial_.fold(arrived, input(chunk), arrived, chunk.count);
      return;
    }
    const std::size_t begin = chunk.begin - chunks_[static_cast<std::size_t>(me_)].begin;
    partial_.finish_fold(arrived, input(chunk), work_.out + begin * partial_.element(),
                         chunk.count);
  }

  Transport& transport_;
  const FlatWork& work_;
  std::span<const Chunk> chunks_;
  PartialReduction partial_;
  const int me_;
  const int size_;
  const std::size_t steps_;
  std::size_t slices_ = 1;
  std::array<Moving, kOverlap> moving_;
};

}  // namespace

Status ring_reduce_chunks(Transport& transport, const FlatWork& work, std::span<const Chunk> chunks,
                          Scratch& scratch) {
  return RingReduce(transport, work, chunks, scratch).run();
}

Status ring_reduce_scatter(Transport& transport, const FlatWork& work, Scratch& scratch) {
  return reduce_scatter_by(ring_reduce_chunks, transport, work, scratch);
}

}  // namespace ronde
