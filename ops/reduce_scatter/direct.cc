#include "ops/reduce_scatter/direct.h"

#include <algorithm>
#include <vector>

#include "core/ports/phases.h"
namespace ronde {

namespace {

constexpr std::size_t kSharedSliceBytes = std::size_t{4} << 20;

// One slice of every part, from all ranks to the part's owner.
class Slice {
 public:
  Slice(Transport& transport, const FlatWork& work, std::span<const Part> parts, Scratch& scratch)
      : transport_(transport),
        work_(work),
        parts_(parts),
        element_(size_of(work.reduction.dtype)),
        me_(transport.rank()),
        size_(transport.size()) {
    std::size_t longest = 0;
    for (const Part& part : parts) longest = std::max(longest, part.count);
    const std::size_t ranks = parts.size();
    count_ = std::max<std::size_t>(
        1, (longest * element_ * ranks + kSharedSliceBytes - 1) / kSharedSliceBytes);
    room_ = (longest / count_ + 1) * element_;
    received_ = scratch.block(0, room_ * ranks);
  }

  std::size_t count() const { return count_; }

  Status move(std::size_t slice) {
    const Part mine = slice_of(me_, slice);
    Posted posted(transport_, work_.abort);
    for (int step = 1; step < size_; ++step) {
      const int from = wrap(me_ - step, size_);
      const int to = (me_ + step) % size_;
      const Part theirs = slice_of(to, slice);
      RONDE_RETURN_IF_ERROR(posted.recv(from, {place_of(from), mine.count * element_}));
      RONDE_RETURN_IF_ERROR(posted.send(to, {input(theirs), theirs.count * element_}));
    }
    RONDE_RETURN_IF_ERROR(posted.wait());
    combine(mine);
    return {};
  }

 private:
  Part slice_of(int part, std::size_t slice) const {
    const Part& whole = parts_[static_cast<std::size_t>(part)];
    const Part inner = even_part(whole.count, count_, slice);
    return {whole.begin + inner.begin, inner.count};
  }
  const std::byte* input(const Part& part) const { return work_.in + part.begin * element_; }
  std::byte* place_of(int rank) const { return received_ + static_cast<std::size_t>(rank) * room_; }

  void combine(const Part& mine) {
    inputs_.clear();
    for (int rank = 0; rank < size_; ++rank) {
      inputs_.push_back(rank == me_ ? input(mine) : place_of(rank));
    }
    const std::size_t begin = mine.begin - parts_[static_cast<std::size_t>(me_)].begin;
    work_.kernels.reduce(work_.reduction, inputs_, work_.out + begin * element_, mine.count);
  }

  Transport& transport_;
  const FlatWork& work_;
  std::span<const Part> parts_;
  const std::size_t element_;
  const int me_;
  const int size_;
  std::size_t count_ = 1;  // of slices
  std::size_t room_ = 0;   // for one rank's slice of this rank's part
  std::byte* received_ = nullptr;
  std::vector<const void*> inputs_;
};

}  // namespace

Status direct_reduce_parts(Transport& transport, const FlatWork& work, std::span<const Part> parts,
                           Scratch& scratch) {
  Slice slices(transport, work, parts, scratch);
  PhaseSteps told(work.phases, "reduce-scatter slice", slices.count());
  for (std::size_t slice = 0; slice < slices.count(); ++slice) {
    told.next();
    RONDE_RETURN_IF_ERROR(slices.move(slice));
  }
  return {};
}

Status direct_reduce_scatter(Transport& transport, const FlatWork& work, Scratch& scratch) {
  const std::vector<Part> parts = parts_of(work.chunk_bytes, size_of(work.reduction.dtype));
  if (work.out != work.in) return direct_reduce_parts(transport, work, parts, scratch);
  // In place the result begins where other parts are still to be read.
  const std::size_t own = work.chunk_bytes[static_cast<std::size_t>(transport.rank())];
  FlatWork aside = work;
  aside.out = scratch.block(2, own);
  RONDE_RETURN_IF_ERROR(direct_reduce_parts(transport, aside, parts, scratch));
  copy_bytes(work.out, aside.out, own);
  return {};
}

}  // namespace ronde
