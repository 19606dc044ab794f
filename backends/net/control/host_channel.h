// The control channel inside one host: rings, doorbells and death watch over a HostSegment. Ranks
// in here are positions among the ranks of the host.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/net/control/death_watch.h"
#include "backends/net/control/host_segment.h"
#include "backends/net/control/ring.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/control_channel.h"

namespace ronde::net {

/// The events of HostChannel::poll.
struct HostEvents {
  std::function<void(int from, std::span<const std::byte>)> on_frame;
  /// Once per rank, after its last frame; for this rank if the others have given it up.
  std::function<void(int rank, Presence how)> on_gone;
  /// Once per rank of another host that a rank of this one has reported as lost. Comes before the
  /// reporter's on_gone.
  std::function<void(const LostRank&)> on_far_loss;
};

/// Exchanges frames between the ranks of one host. Threads: as ControlChannel.
class HostChannel {
 public:
  HostChannel(std::unique_ptr<HostSegment> segment, int rank);
  ~HostChannel();
  HostChannel(const HostChannel&) = delete;
  HostChannel& operator=(const HostChannel&) = delete;

  /// Makes this rank's death visible to its peers. Blocks shortly. Errors: as DeathWatch::start.
  Status hold() { return watch_.start(); }
  /// Begins to watch the peers; once all of them hold. `hooks` as for DeathWatch.
  void begin_watching(WatchHooks hooks) { watch_.begin_watching(std::move(hooks)); }

  /// As DeathWatch::tell_far_loss.
  void tell_far_loss(const LostRank& lost) const noexcept { watch_.tell_far_loss(lost); }

  /// Queues a frame of at most kMaxFrameBytes. Blocks: never.
  void send(int to, std::span<const std::byte> frame);

  /// Moves queued frames on, delivers what is there; true where anything was delivered.
  bool poll(const HostEvents& events) {
    doorbell_.mark_polling();
    if (!anything_to_do()) return false;
    return poll_slowly(events);
  }

  /// Wakes peers that sleep with something of ours unseen; false while frames wait for room.
  bool kick() noexcept {
    for (std::size_t w = 0; w < words_; ++w) {
      if (unkicked_[w] != 0) kick_word(w);
    }
    return blocked_count_ == 0;
  }

  [[nodiscard]] Doorbell& doorbell() noexcept { return doorbell_; }

  /// Sends what is queued (as long as the peers read, 2 s at most), announces that this rank
  /// leaves, and ends the watch. Idempotent; does nothing in a forked child.
  void close() noexcept;

 private:
  struct Peer {
    RingSender sender;
    RingReceiver receiver;
    bool gone = false;  // reported
  };
  using Bits = std::array<std::uint64_t, kMaxLocalRanks / 64>;

  [[nodiscard]] bool anything_to_do() const noexcept {
    std::uint64_t found = blocked_count_;
    for (std::size_t w = 0; w < words_; ++w) {
      found |= inbox_.senders[w].load(std::memory_order_seq_cst);
    }
    return found != 0 || inbox_.news.load(std::memory_order_seq_cst) != seen_news_;
  }
  bool poll_slowly(const HostEvents& events);
  bool poll_senders(std::size_t word, const HostEvents& events);
  bool drain(int from, const HostEvents& events);
  bool report_news(const HostEvents& events);
  bool report_far_losses(const HostEvents& events);
  void flush_blocked() noexcept;
  void tell(int peer) noexcept;
  void kick_word(std::size_t word) noexcept;
  [[nodiscard]] Presence presence(int rank) const noexcept;
  void lose(int rank, Presence how, const HostEvents& events);
  [[nodiscard]] bool somebody_is_to_read() const noexcept;
  void flush_before_leaving() noexcept;

  const std::unique_ptr<HostSegment> segment_;
  const int rank_;
  const pid_t process_;
  const std::size_t words_;
  Inbox& inbox_;
  Doorbell doorbell_;
  DeathWatch watch_;
  std::vector<Peer> peers_;
  std::vector<bool> far_reported_;   // by rank of the job
  Bits unkicked_{};                  // peers with news since their last kick
  std::uint64_t blocked_count_ = 0;  // peers with queued frames
  std::uint32_t seen_news_ = 0;
  bool closed_ = false;
};

}  // namespace ronde::net
