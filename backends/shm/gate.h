// Who may write into the private memory of another rank, and until when. A rank whose collective
// has failed hands its tensors back to the user, who may free them: from then on no other may write
// there, not even one that has not heard of the failure yet.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <span>

#include "backends/shm/layout.h"
#include "backends/shm/reach.h"
#include "core/base/status.h"

namespace ronde::shm {

/// One rank's view of the group's gates. Threads: one at a time.
class Gate {
 public:
  /// `base` is the group's memory and must outlive this.
  Gate(const Layout& layout, std::byte* base, int rank) noexcept
      : layout_(layout), base_(base), rank_(rank) {}

  /// Runs `write`, which may write into the memory of `target` while that is in the same
  /// collective. Errors: write's; where the target has failed, as verdict(), else kRankFailure.
  template <typename Write>
  Status pass(int target, const Stop& stop, Write write) {
    {
      const Passage passage(flag(rank_), target);
      if (flag(target).shut.load(std::memory_order_seq_cst) == 0) return write();
    }
    return verdict(stop, {Code::kRankFailure, "shared memory: a peer has given up"});
  }

  /// This rank's collective has failed: when this returns, nobody writes into its memory any more.
  /// `pids` by rank. Blocks until those who are at it have finished or died, at most `limit`.
  void shut(std::span<const pid_t> pids, std::chrono::milliseconds limit) noexcept;

 private:
  /// While it lives, this rank is known to write to `target`.
  class Passage {
   public:
    // Sequentially consistent on both sides: either we see the gate shut, or who shuts it sees us.
    Passage(Flag& mine, int target) noexcept : mine_(mine) {
      mine_.writing_to.store(static_cast<std::uint32_t>(target) + 1, std::memory_order_seq_cst);
    }
    Passage(const Passage&) = delete;
    Passage& operator=(const Passage&) = delete;
    ~Passage() { mine_.writing_to.store(0, std::memory_order_release); }

   private:
    Flag& mine_;
  };

  [[nodiscard]] Flag& flag(int rank) const noexcept { return layout_.flag(base_, rank); }
  [[nodiscard]] bool is_written_by(int rank) const noexcept;

  const Layout layout_;
  std::byte* const base_;
  const int rank_;
};

}  // namespace ronde::shm
