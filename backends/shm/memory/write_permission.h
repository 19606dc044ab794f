// The permission to write into the private memory of other ranks. A rank whose collective has
// failed gives its tensors back to the user, who may free them. From then on no other rank may
// write there, not even one that does not know of the failure yet.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <span>

#include "backends/shm/memory/layout.h"
#include "backends/shm/memory/reach.h"
#include "core/base/status.h"

namespace ronde::shm {

/// One rank's view of the group's permissions. Threads: one at a time.
class WritePermission {
 public:
  /// `base` is the group's memory and must outlive this.
  WritePermission(const Layout& layout, std::byte* base, int rank) noexcept
      : layout_(layout), base_(base), rank_(rank) {}

  /// Runs `body`, which may write into the memory of `target` while that rank is in the same
  /// collective. Errors: body's; where the target has failed, as verdict(), else kRankFailure.
  template <typename Write>
  Status write(int target, const Stop& stop, Write body) {
    {
      const Announced announced(flag(rank_), target);
      if (flag(target).revoked.load(std::memory_order_seq_cst) == 0) return body();
    }
    return verdict(stop, {Code::kRankFailure, "shared memory: a peer has given up"});
  }

  /// Revokes the permission to write into this rank's memory, because its collective has failed.
  /// `pids` by rank. Blocks until the ranks that write there have finished or died, `limit` at
  /// most.
  void revoke(std::span<const pid_t> pids, std::chrono::milliseconds limit) noexcept;

 private:
  /// Announces, as long as it lives, that this rank writes to `target`.
  class Announced {
   public:
    // Sequentially consistent on both sides: either this rank sees that the permission is revoked,
    // or the rank that revokes it sees this one.
    Announced(Flag& mine, int target) noexcept : mine_(mine) {
      mine_.writing_to.store(static_cast<std::uint32_t>(target) + 1, std::memory_order_seq_cst);
    }
    Announced(const Announced&) = delete;
    Announced& operator=(const Announced&) = delete;
    ~Announced() { mine_.writing_to.store(0, std::memory_order_release); }

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
