// The memory that the ranks of one host share for control. It is a memfd: nothing stays behind when
// they are killed. Untouched pages cost nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/net/control/losses.h"
#include "backends/net/control/ring.h"
#include "core/base/clock.h"
#include "core/base/os/futex.h"
#include "core/base/os/memory_file.h"
#include "core/base/status.h"
#include "core/ports/control_channel.h"

namespace ronde::net {

/// The words of one process's doorbell, which wakes it where it has something to poll. They are in
/// memory that its peers share. Zeros are a good start.
///
/// No wake-up is lost. A peer publishes, then reads `attention`. The owner stores `attention`, then
/// looks once more for published data. All are sequentially consistent, without a fence, as
/// ThreadSanitizer sees none. At least one sees the other.
struct alignas(64) DoorbellWords {
  FutexWord attention;                  ///< 0: the owner polls; else 1 + the Sleeper to wake.
  std::array<SharedWakeWord, 2> words;  ///< By Sleeper.
};

/// Acts on a DoorbellWords. Threads: any, but for mark_polling and prepare (the polling thread).
class Doorbell {
 public:
  explicit Doorbell(DoorbellWords& words) noexcept : words_(words) {}

  /// Marks the owner as polling, so that peers need not wake it. The first call after prepare()
  /// marks nothing: it is the owner's last look before it sleeps.
  void mark_polling() noexcept {
    if (prepared_) {
      prepared_ = false;
    } else if (words_.attention.load(std::memory_order_relaxed) != 0) {
      words_.attention.store(0, std::memory_order_relaxed);
    }
  }

  /// Names the thread to be woken from now on; returns the ticket for wait().
  std::uint32_t prepare(Sleeper who) noexcept {
    prepared_ = true;
    const std::uint32_t ticket = word(who).ticket();
    words_.attention.store(1 + static_cast<std::uint32_t>(who), std::memory_order_seq_cst);
    return ticket;
  }

  /// Sleeps until a wake-up since the ticket was taken, or the deadline.
  void wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept {
    word(who).wait(ticket, deadline);
  }

  /// Wakes `who`, or makes its next wait() with an older ticket return.
  void wake(Sleeper who) noexcept { word(who).wake(); }

  /// Wakes the thread that the owner named, once; nothing while it polls. Peers call it after they
  /// have published something.
  void ring() noexcept {
    std::uint32_t named = words_.attention.load(std::memory_order_seq_cst);
    if (named == 0 || named > 2) return;
    // The peer that clears the word wakes the sleeper; the others need no system call.
    if (words_.attention.compare_exchange_strong(named, 0, std::memory_order_seq_cst)) {
      wake(static_cast<Sleeper>(named - 1));
    }
  }

 private:
  [[nodiscard]] SharedWakeWord& word(Sleeper who) const noexcept {
    return words_.words[static_cast<std::size_t>(who)];
  }

  DoorbellWords& words_;
  bool prepared_ = false;  // polling thread only
};

inline constexpr int kMaxLocalRanks = 256;
inline constexpr std::size_t kRingBytes = std::size_t{64} << 10;

/// Notifications for one rank: one cache line, all that its idle poll reads.
struct alignas(64) Inbox {
  std::array<std::atomic<std::uint64_t>, kMaxLocalRanks / 64> senders;  ///< Bit i: look at ring i.
  FutexWord news;  ///< Counts losses of ranks of the job.
};

/// The words of one rank that its peers watch.
struct alignas(64) LifeWords {
  FutexWord owner;                  ///< Robust futex, held by the rank's watch; see host_watch.h.
  std::atomic<std::uint32_t> beat;  ///< Counts up while the rank runs; 0: not yet.
};

struct RankSlot {
  Inbox inbox;
  DoorbellWords doorbell;
  LifeWords life;
};

/// The mapped segment. Ranks of the host are known in it by their positions. Threads: any; the
/// words inside are atomic.
class HostSegment {
 public:
  /// Makes the memory of one for `ranks` of a job of `job_ranks`, to be passed on.
  /// Errors: kResourceExhausted, kInvalidArgument (more than kMaxLocalRanks), kUnavailable
  /// (ulimit -f).
  static Result<FileDescriptor> make_memory(std::size_t ranks, int job_ranks);

  /// Maps it for the host's `ranks`. Errors: kResourceExhausted; kInvalidArgument where it is not
  /// for so many ranks.
  static Result<std::unique_ptr<HostSegment>> map(const FileDescriptor& memory,
                                                  std::vector<int> ranks, int job_ranks);

  /// The number of the host's ranks.
  [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks_.size()); }
  /// The number of the job's ranks.
  [[nodiscard]] int job_size() const noexcept { return static_cast<int>(positions_.size()); }
  /// The job's rank at a position.
  [[nodiscard]] int rank(int position) const noexcept {
    return ranks_[static_cast<std::size_t>(position)];
  }
  /// The position of a rank of the job; -1 for a rank of another host.
  [[nodiscard]] int position(int rank) const noexcept {
    return positions_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] RankSlot& slot(int position) const noexcept;
  [[nodiscard]] RingHeader& ring(int from, int to) const noexcept;
  [[nodiscard]] std::span<std::byte> ring_data(int from, int to) const noexcept;

  /// Keeps the loss of a rank of the job. False if its loss is known already.
  bool note_loss(const LostRank& lost) const noexcept;
  /// The kept loss of a rank of the job.
  [[nodiscard]] std::optional<LostRank> loss(int rank) const noexcept;
  /// Notifies all ranks of the host that losses were noted, and wakes their sleepers.
  void announce_losses() const noexcept;

 private:
  using LossWord = std::atomic<std::uint32_t>;  // 0: not lost

  HostSegment(Mapping memory, std::vector<int> ranks, int job_ranks);
  [[nodiscard]] std::size_t pair(int from, int to) const noexcept;
  [[nodiscard]] LossWord& loss_word(int rank) const noexcept;

  Mapping memory_;
  std::vector<int> ranks_;      // of the job, by position
  std::vector<int> positions_;  // by rank of the job
};

/// Reads the losses that ranks of this host have noted. Threads: one at a time.
class LossReader {
 public:
  /// For the rank at `position`. `segment` outlives it.
  LossReader(const HostSegment& segment, int position);

  /// True if losses were announced since the last read().
  [[nodiscard]] bool has_news() const noexcept {
    return news_.load(std::memory_order_seq_cst) != seen_;
  }
  /// Delivers each loss once, perhaps that of this rank too. A loss comes before that of a rank of
  /// this host which has noted it. True where there was any.
  bool read(const std::function<void(const LostRank&)>& on_lost);

 private:
  [[nodiscard]] std::vector<LostRank> new_losses(bool local) const;

  const HostSegment& segment_;
  const FutexWord& news_;
  std::uint32_t seen_ = 0;
  std::vector<bool> known_;  // by rank of the job
};

}  // namespace ronde::net
