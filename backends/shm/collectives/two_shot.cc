// Allreduce and reduce of large tensors. The transfer of a cache line between two cores costs most,
// so every line changes its core as rarely as possible. Of two ranks, one reduces into the lines
// that the other has staged for it, reads them back and stages into them again.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "backends/shm/collectives/collectives.h"
#include "backends/shm/collectives/combiner.h"

namespace ronde::shm {
namespace {

/// Reductions are done in blocks of this size, which stay in the L1 cache.
constexpr std::size_t kBlockBytes = Checksum::kBlockBytes;

/// Bytes that two ranks stage in a round. After a small round they are still in the other's L2
/// cache. With more ranks small rounds cost too many waits.
constexpr std::size_t kRoundOfTwo = std::size_t{128} << 10;

/// Asks for the cache lines of `bytes` at `from`, to be read.
void prefetch_to_read(const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kAlign) __builtin_prefetch(from + i, 0, 2);
}

/// Asks for them to be written: they come in one trip, where reading first takes two.
void prefetch_to_write(std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kAlign) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(from[i]));
#else
    __builtin_prefetch(from + i, 1, 3);
#endif
  }
}

/// In place, the output's lines have just been read and are still in the cache.
bool streams_outputs(const Context& with, const Work& work) {
  const auto in_place = [](const Segment& segment) { return segment.in == segment.out; };
  return streams(with, total_bytes(work)) &&
         std::none_of(work.segments.begin(), work.segments.end(), in_place);
}

/// One two-shot reduction. Round k consists of n slices; rank r owns slice r. In step k of the
/// group a rank stages the slices of round k. It also reduces its own slice of round k - 1 into a
/// slot of step k - 1, from which the others copy it.
class TwoShot {
 public:
  TwoShot(const Context& with, const Work& work)
      : with_(with),
        ranks_(static_cast<std::size_t>(with.steps.ranks())),
        me_(static_cast<std::size_t>(with.steps.rank())),
        only_reader_(ranks_ == 2 || traits_of(work.kind).output.root_only),
        copier_(streams_outputs(with, work)),
        combiner_(with, work, false),
        staging_(work.segments),
        own_(work.segments),
        delivery_(work.segments),
        watched_(work.segments),
        cut_(cut(total_bytes(work), round_bytes(with.steps) - ranks_ * kAlign)),
        rounds_(cut_.count),
        slice_((cut_.size / ranks_ + kAlign) / kAlign * kAlign),
        told_(with.phases, "round", rounds_ + 1, kStretchBytes) {
    for (int r = 0; r < with.steps.ranks(); ++r) add_reader(work, r);
  }

  Status run() {
    const auto write = [&](std::size_t k, std::byte* slot) {
      if (k < rounds_) stage(k, slot);
      if (k > 0) RONDE_RETURN_IF_ERROR(wait_for_round());
      if (k > 0) reduce_own(k - 1);
      RONDE_RETURN_IF_ERROR(checked(with_));  // before others get results of wrong data
      note_odd(with_, std::exchange(odd_, false));
      return Status();
    };
    const auto read = [&](std::size_t k, Step step) {
      if (k > 0 && read_odd(with_, step)) watch_inputs(k - 1);
      if (k > 0 && deliver_) copy_results(k - 1, step - 1);
    };
    // Results lie in their owner's slot of the step before, and are copied after the next arrival.
    if (!only_reader_) with_.steps.read_late(static_cast<Step>(rounds_ + 1));
    return stream(with_, told_, rounds_ + 1, kEverybody, write, read);
  }

 private:
  void add_reader(const Work& work, int rank) {
    if (traits_of(work.kind).output.root_only && rank != work.root) return;
    if (rank == with_.steps.rank()) {
      deliver_ = true;
    } else {
      readers_.push_back(rank);
    }
  }

  static std::size_t round_bytes(const Steps& steps) {
    return steps.ranks() == 2 ? std::min(steps.slot_bytes(), kRoundOfTwo) : steps.slot_bytes();
  }

  [[nodiscard]] std::size_t position(std::size_t round, std::size_t owner) const {
    return (round * ranks_ + owner) * slice_;
  }

  void stage(std::size_t round, std::byte* slot) {
    const Phase phase(told_.detail(), kStagePhase);
    for (std::size_t owner = 0; owner < ranks_; ++owner) {
      if (owner == me_) continue;
      staging_.seek(position(round, owner));
      write_part(with_, owner, slot + owner * slice_, slice_,
                 [&](std::size_t bytes, std::byte* to, Checksum* sum) {
                   copier_.copy_in(staging_, bytes, to, sum);
                 });
    }
  }

  Status wait_for_round() {
    const Phase phase(told_.detail(), kWaitPhase);
    return with_.steps.wait_all(with_.steps.current() - 1, with_.stop);
  }

  void reduce_own(std::size_t round) {
    const Phase phase(told_.detail(), "reduce");
    const Step staged = with_.steps.current() - 1;
    std::size_t offset = me_ * slice_;
    own_.seek(position(round, me_));
    const PlaceInWork place = place_of(own_);
    input_sums_.assign(with_.checks == nullptr ? 0 : ranks_, {});
    result_sum_ = {};
    prefetch(staged, offset);
    for (std::size_t done = 0; done < slice_; done += kBlockBytes) {
      if (with_.checks != nullptr) add_inputs(staged, done);
      const std::size_t size = std::min(kBlockBytes, slice_ - done);
      Checksum* const sum = sums_results() && own_.is_whole(size) ? &result_sum_ : nullptr;
      own_.take(size, [&](const Segment& piece) {
        if (piece.in != nullptr) prefetch_to_read(piece.in + kBlockBytes, piece.bytes);
        reduce_piece(staged, offset, piece, sum);
        offset += piece.bytes;
      });
      if (sums_results() && sum == nullptr) result_sum_.add(block(holder(me_), staged, done));
      prefetch(staged, me_ * slice_ + done + kBlockBytes);
    }
    if (with_.checks != nullptr) compare_inputs(staged, place);
  }

  [[nodiscard]] std::span<const std::byte> block(int rank, Step staged, std::size_t done) const {
    return {with_.steps.slot(rank, staged) + me_ * slice_ + done,
            std::min(kBlockBytes, slice_ - done)};
  }

  /// Of a block that is reduced next, for its checksums.
  void add_inputs(Step staged, std::size_t done) {
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (r != me_) input_sums_[r].add(block(static_cast<int>(r), staged, done));
    }
  }

  [[nodiscard]] bool sums_results() const noexcept {
    return with_.checks != nullptr && !readers_.empty();
  }

  /// Others get the results only if the inputs were right.
  void compare_inputs(Step staged, PlaceInWork place) {
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (r == me_) continue;
      with_.checks->compare({static_cast<int>(r), staged, me_}, input_sums_[r], slice_, place);
    }
    with_.checks->seal(staged, ranks_, result_sum_);
  }

  /// Asks for what is staged for the block at `offset`, where results are written into it.
  void prefetch(Step staged, std::size_t offset) {
    if (!only_reader_) return;
    const std::size_t end = (me_ + 1) * slice_;
    const std::size_t bytes = std::min(kBlockBytes, end - std::min(offset, end));
    for (const int r : readers_) {
      prefetch_to_write(with_.steps.slot(r, staged) + offset, bytes);
    }
  }

  /// `sum`: gets the result, unless it is null.
  void reduce_piece(Step staged, std::size_t offset, const Segment& piece, Checksum* sum) {
    const std::byte* mine = piece.in;
    if (mine == nullptr) {  // no rank reads this rank's own slot
      std::byte* zeros = with_.steps.slot(with_.steps.rank(), staged) + offset;
      mine = static_cast<std::byte*>(std::memset(zeros, 0, piece.bytes));
    }
    std::byte* const result =
        readers_.empty() ? piece.out : with_.steps.slot(holder(me_), staged) + offset;
    if (result == nullptr) return;
    combiner_.reduce(staged, offset, mine, result, piece.bytes);
    if (with_.watch != nullptr) watch_piece(piece, result);
    if (deliver_ && piece.out != nullptr && piece.out != result) {
      copier_.write_result(result, piece.out, piece.bytes, sum);
    } else if (sum != nullptr) {
      sum->add({result, piece.bytes});
    }
  }

  /// Shows the watch a result, and this rank's input if it is odd.
  void watch_piece(const Segment& piece, const std::byte* result) {
    const std::size_t segment = own_.segment();
    const std::size_t within = own_.within();
    if (!with_.watch->look_at_result(segment, within, result, piece.bytes)) return;
    odd_ = true;
    with_.watch->look_at_input(with_.steps.rank(), segment, within, piece.in, piece.bytes);
  }

  /// Shows the watch this rank's inputs of a round, before others' results overwrite them.
  void watch_inputs(std::size_t round) {
    for (std::size_t owner = 0; owner < ranks_; ++owner) {
      if (owner == me_) continue;
      watched_.seek(position(round, owner));
      watched_.take(slice_, [&](const Segment& piece) {
        with_.watch->look_at_input(with_.steps.rank(), watched_.segment(), watched_.within(),
                                   piece.in, piece.bytes);
      });
    }
  }

  /// In whose slot the results of `owner` are: that of its only reader, or its own.
  [[nodiscard]] int holder(std::size_t owner) const {
    if (owner != me_) return only_reader_ ? with_.steps.rank() : static_cast<int>(owner);
    return only_reader_ ? readers_.front() : with_.steps.rank();
  }

  void copy_results(std::size_t round, Step staged) {
    for (std::size_t owner = 0; owner < ranks_; ++owner) {
      if (owner == me_) continue;
      delivery_.seek(position(round, owner));
      const std::byte* const slot = with_.steps.slot(holder(owner), staged);
      read_part(with_, {static_cast<int>(owner), staged, ranks_}, slot + owner * slice_, slice_,
                place_of(delivery_), [&](const std::byte* from, std::size_t bytes, Checksum* sum) {
                  copier_.copy_out(from, bytes, delivery_, sum);
                });
    }
  }

  const Context& with_;
  const std::size_t ranks_;
  const std::size_t me_;
  const bool only_reader_;  ///< Each result has one reader besides the rank that reduces it, in
                            ///< whose slot it is left.
  bool deliver_ = false;
  std::vector<int> readers_;  ///< Other ranks that need the results.
  const Copier copier_;
  const Combiner combiner_;
  Cursor staging_;
  Cursor own_;
  Cursor delivery_;
  Cursor watched_;
  std::vector<Checksum> input_sums_;  ///< By rank; none without checksums.
  Checksum result_sum_;
  bool odd_ = false;  ///< A result of the round that is being reduced.
  const Slices cut_;
  const std::size_t rounds_;
  const std::size_t slice_;
  PhaseSteps told_;
};

}  // namespace

Status two_shot(const Context& with, const Work& work) {
  const Phase phase(with.phases, "two-shot");
  return TwoShot(with, work).run();
}

}  // namespace ronde::shm
