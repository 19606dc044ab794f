#include <bit>
#include <vector>

#include "core/ports/phases.h"
#include "ops/algorithms.h"
#include "ops/partial.h"

namespace ronde {

namespace {

// One step: what both partners hold before it, and the halves that they hold after it.
struct Split {
  int partner = 0;
  Chunk keep;
  Chunk give;
};

// The steps of `rank` from the whole tensor down to its own piece: the partner at half of the
// ranks' distance first. The lower rank keeps the lower half.
std::vector<Split> splits_of(int rank, int ranks, std::size_t count) {
  std::vector<Split> splits;
  Chunk whole{0, count};
  for (int distance = ranks / 2; distance > 0; distance /= 2) {
    const Chunk low{whole.begin, whole.count - whole.count / 2};
    const Chunk high{whole.begin + low.count, whole.count / 2};
    const bool lower = (rank & distance) == 0;
    splits.push_back({rank ^ distance, lower ? low : high, lower ? high : low});
    whole = splits.back().keep;
  }
  return splits;
}

class HalvingDoubling {
 public:
  HalvingDoubling(Transport& transport, const FlatWork& work, Scratch& scratch)
      : transport_(transport),
        work_(work),
        partial_(work.reduction, work.kernels),
        count_(work.bytes / partial_.element()),
        core_(static_cast<int>(std::bit_floor(static_cast<unsigned>(transport.size())))),
        sum_(scratch.block(0, bytes_of(count_))),
        theirs_(scratch.block(1, bytes_of(count_))) {}

  Status run() {
    const int me = transport_.rank();
    if (me >= core_) return outside(me - core_);
    const bool paired = me + core_ < transport_.size();
    partial_.load(work_.in, sum_, count_);
    if (paired) RONDE_RETURN_IF_ERROR(take_in(me + core_));
    RONDE_RETURN_IF_ERROR(halve_and_double(splits_of(me, core_, count_)));
    if (!paired) return {};
    return send_to(transport_, me + core_, {work_.out, work_.bytes}, work_.abort);
  }

 private:
  std::size_t bytes_of(std::size_t count) const { return count * partial_.width(); }

  std::span<std::byte> result(const Chunk& chunk) const {
    return {work_.out + chunk.begin * partial_.element(), chunk.count * partial_.element()};
  }

  // A rank beyond the power of two: its input goes to `inner`, which sends the result.
  Status outside(int inner) {
    const std::byte* mine = work_.in;
    if (!partial_.raw_is_partial()) {
      partial_.load(work_.in, sum_, count_);
      mine = sum_;
    }
    RONDE_RETURN_IF_ERROR(send_to(transport_, inner, {mine, bytes_of(count_)}, work_.abort));
    return recv_from(transport_, inner, {work_.out, work_.bytes}, work_.abort);
  }

  Status take_in(int from) {
    RONDE_RETURN_IF_ERROR(recv_from(transport_, from, {theirs_, bytes_of(count_)}, work_.abort));
    partial_.merge(sum_, theirs_, sum_, count_);
    return {};
  }

  Status halve_and_double(const std::vector<Split>& splits) {
    RONDE_RETURN_IF_ERROR(halve_all(splits));
    const Chunk own = splits.empty() ? Chunk{0, count_} : splits.back().keep;
    partial_.finish(sum_ + bytes_of(own.begin), result(own).data(), own.count);
    PhaseSteps steps(work_.phases, "doubling step", splits.size());
    for (auto split = splits.rbegin(); split != splits.rend(); ++split) {
      steps.next();
      const Exchanged halves{split->partner, result(split->keep), split->partner,
                             result(split->give)};
      RONDE_RETURN_IF_ERROR(exchange(transport_, halves, work_.abort));
    }
    return {};
  }

  Status halve_all(const std::vector<Split>& splits) {
    PhaseSteps steps(work_.phases, "halving step", splits.size());
    for (const Split& split : splits) {
      steps.next();
      RONDE_RETURN_IF_ERROR(halve(split));
    }
    return {};
  }

  Status halve(const Split& split) {
    const Exchanged halves{split.partner,
                           {sum_ + bytes_of(split.give.begin), bytes_of(split.give.count)},
                           split.partner,
                           {theirs_, bytes_of(split.keep.count)}};
    RONDE_RETURN_IF_ERROR(exchange(transport_, halves, work_.abort));
    std::byte* kept = sum_ + bytes_of(split.keep.begin);
    partial_.merge(kept, theirs_, kept, split.keep.count);
    return {};
  }

  Transport& transport_;
  const FlatWork& work_;
  PartialReduction partial_;
  const std::size_t count_;
  const int core_;
  std::byte* sum_;
  std::byte* theirs_;
};

}  // namespace

Status halving_doubling_allreduce(Transport& transport, const FlatWork& work, Scratch& scratch) {
  return HalvingDoubling(transport, work, scratch).run();
}

}  // namespace ronde
