// The memory that the ranks of one host share for control. It is a memfd: nothing stays behind when
// they are killed. Untouched pages cost nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "backends/net/channel/doorbell.h"
#include "backends/net/channel/loss.h"
#include "backends/net/channel/ring.h"
#include "core/base/os/memory_file.h"
#include "core/base/status.h"

namespace ronde::net {

inline constexpr int kMaxLocalRanks = 256;
inline constexpr std::size_t kRingBytes = std::size_t{64} << 10;

/// The state of a rank.
enum class Presence : std::uint32_t { kPresent = 0, kLeft = 1, kDied = 2, kFrozen = 3 };

/// Notifications for one rank: one cache line, all that its idle poll reads.
struct alignas(64) Inbox {
  std::array<std::atomic<std::uint64_t>, kMaxLocalRanks / 64> senders;  ///< Bit i: look at ring i.
  FutexWord news;  ///< Counts changes of any rank's presence, and losses on other hosts.
};

/// The words of one rank that its peers watch.
struct alignas(64) LifeWords {
  FutexWord owner;  ///< Robust futex, held by the rank's death watch; see death_watch.h.
  std::atomic<std::uint32_t> presence;
  std::atomic<std::uint32_t> beat;  ///< Counts up while the rank runs; 0: not yet.
};

struct RankSlot {
  Inbox inbox;
  DoorbellWords doorbell;
  LifeWords life;
};

/// The mapped segment. Threads: any; the words inside are atomic.
class HostSegment {
 public:
  /// Makes one for `ranks` ranks of this host in a job of `job_ranks`, to be passed on by fd().
  /// Errors: kResourceExhausted, kInvalidArgument (more than kMaxLocalRanks), kUnavailable
  /// (ulimit -f).
  static Result<std::unique_ptr<HostSegment>> create(int ranks, int job_ranks);

  /// Maps one that a peer made. Errors: kInvalidArgument where it is not for so many ranks.
  static Result<std::unique_ptr<HostSegment>> attach(FileDescriptor fd, int ranks, int job_ranks);

  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] int job_ranks() const noexcept { return job_ranks_; }
  [[nodiscard]] RankSlot& slot(int rank) const noexcept;
  [[nodiscard]] RingHeader& ring(int from, int to) const noexcept;
  [[nodiscard]] std::span<std::byte> ring_data(int from, int to) const noexcept;

  /// Keeps the loss of a rank of another host. False if its loss is known already.
  bool note_far_loss(const LostRank& lost) const noexcept;
  /// The kept loss of `rank`, of the job.
  [[nodiscard]] std::optional<LostRank> far_loss(int rank) const noexcept;

  /// The memfd, until release_fd().
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void release_fd() noexcept { fd_.reset(); }

 private:
  using LossWord = std::atomic<std::uint32_t>;  // 0: not lost

  HostSegment(FileDescriptor fd, Mapping memory, int ranks, int job_ranks) noexcept
      : fd_(std::move(fd)), memory_(std::move(memory)), ranks_(ranks), job_ranks_(job_ranks) {}
  static Result<std::unique_ptr<HostSegment>> map(FileDescriptor fd, int ranks, int job_ranks);
  [[nodiscard]] std::size_t pair(int from, int to) const noexcept;
  [[nodiscard]] LossWord& loss_word(int rank) const noexcept;

  FileDescriptor fd_;
  Mapping memory_;
  int ranks_;
  int job_ranks_;
};

}  // namespace ronde::net
