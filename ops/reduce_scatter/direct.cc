#include <algorithm>
#include <array>
#include <vector>

#include "core/ports/phases.h"
#include "ops/algorithms.h"

namespace ronde {

namespace {

constexpr std::size_t kSharedSliceBytes = std::size_t{4} << 20;
constexpr std::size_t kSlicesInFlight = 2;  // while one slice is combined, the next one moves

// Slices of every chunk, from all ranks to the chunk's owner.
class SliceReduce {
 public:
  SliceReduce(Transport& transport, const FlatWork& work, std::span<const Chunk> chunks,
              Scratch& scratch)
      : work_(work),
        chunks_(chunks),
        element_(size_of(work.reduction.dtype)),
        me_(transport.rank()),
        size_(transport.size()),
        moving_{Posted(transport, work.abort), Posted(transport, work.abort)} {
    std::size_t longest = 0;
    for (const Chunk& chunk : chunks) longest = std::max(longest, chunk.count);
    const std::size_t ranks = chunks.size();
    count_ = std::max<std::size_t>(
        1, (longest * element_ * ranks + kSharedSliceBytes - 1) / kSharedSliceBytes);
    room_ = (longest / count_ + 1) * element_;
    received_ = scratch.block(0, std::min(count_, kSlicesInFlight) * room_ * ranks);
  }

  Status run() {
    PhaseSteps steps(work_.phases, "reduce-scatter slice", count_);
    for (std::size_t slice = 0; slice <= count_; ++slice) {
      if (slice < count_) {
        steps.next();
        RONDE_RETURN_IF_ERROR(start(slice));
      }
      if (slice > 0) RONDE_RETURN_IF_ERROR(finish(slice - 1));
    }
    return {};
  }

 private:
  Status start(std::size_t slice) {
    const Chunk mine = slice_of(me_, slice);
    Posted& posted = moving_[slice % kSlicesInFlight];
    for (int step = 1; step < size_; ++step) {
      const int from = wrap(me_ - step, size_);
      const int to = (me_ + step) % size_;
      const Chunk theirs = slice_of(to, slice);
      RONDE_RETURN_IF_ERROR(posted.recv(from, {place_of(slice, from), mine.count * element_}));
      RONDE_RETURN_IF_ERROR(posted.send(to, {input(theirs), theirs.count * element_}));
    }
    return {};
  }

  Status finish(std::size_t slice) {
    RONDE_RETURN_IF_ERROR(moving_[slice % kSlicesInFlight].wait());
    combine(slice);
    return {};
  }

  Chunk slice_of(int chunk, std::size_t slice) const {
    const Chunk& whole = chunks_[static_cast<std::size_t>(chunk)];
    const Chunk inner = even_chunk(whole.count, count_, slice);
    return {whole.begin + inner.begin, inner.count};
  }
  const std::byte* input(const Chunk& chunk) const { return work_.in + chunk.begin * element_; }
  std::byte* place_of(std::size_t slice, int rank) const {
    return received_ +
           (slice % kSlicesInFlight * chunks_.size() + static_cast<std::size_t>(rank)) * room_;
  }

  void combine(std::size_t slice) {
    const Chunk mine = slice_of(me_, slice);
    inputs_.clear();
    for (int rank = 0; rank < size_; ++rank) {
      inputs_.push_back(rank == me_ ? input(mine) : place_of(slice, rank));
    }
    const std::size_t begin = mine.begin - chunks_[static_cast<std::size_t>(me_)].begin;
    work_.kernels.reduce(work_.reduction, inputs_, work_.out + begin * element_, mine.count);
  }

  const FlatWork& work_;
  std::span<const Chunk> chunks_;
  const std::size_t element_;
  const int me_;
  const int size_;
  std::size_t count_ = 1;  // of slices
  std::size_t room_ = 0;   // for one rank's slice of this rank's chunk
  std::byte* received_ = nullptr;
  std::array<Posted, kSlicesInFlight> moving_;
  std::vector<const void*> inputs_;
};

}  // namespace

Status direct_reduce_chunks(Transport& transport, const FlatWork& work,
                            std::span<const Chunk> chunks, Scratch& scratch) {
  return SliceReduce(transport, work, chunks, scratch).run();
}

Status reduce_scatter_by(ReduceChunks reduce, Transport& transport, const FlatWork& work,
                         Scratch& scratch) {
  const std::vector<Chunk> chunks = chunks_of(work.chunk_bytes, size_of(work.reduction.dtype));
  if (work.out != work.in) return reduce(transport, work, chunks, scratch);
  // In place the result begins where other chunks are still to be read.
  const std::size_t own = work.chunk_bytes[static_cast<std::size_t>(transport.rank())];
  FlatWork aside = work;
  aside.out = scratch.block(2, own);
  RONDE_RETURN_IF_ERROR(reduce(transport, aside, chunks, scratch));
  copy_bytes(work.out, aside.out, own);
  return {};
}

Status direct_reduce_scatter(Transport& transport, const FlatWork& work, Scratch& scratch) {
  return reduce_scatter_by(direct_reduce_chunks, transport, work, scratch);
}

}  // namespace ronde
