// The control channel inside one host: rings, doorbells and the watch over a HostSegment.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/net/control/host_segment.h"
#include "backends/net/control/host_watch.h"
#include "backends/net/control/losses.h"
#include "backends/net/control/ring.h"
#include "core/base/status.h"

namespace ronde::net {

/// Exchanges frames between the ranks of one host. Threads: as ControlChannel.
class HostChannel {
 public:
  /// `rank`: this one, one of the segment's. `checksums`: of what this one sends.
  HostChannel(std::unique_ptr<HostSegment> segment, int rank, bool checksums = false);
  ~HostChannel();
  HostChannel(const HostChannel&) = delete;
  HostChannel& operator=(const HostChannel&) = delete;

  /// To be started before anything else; close() stops it.
  [[nodiscard]] HostWatch& watch() noexcept { return watch_; }

  /// Queues a frame of at most kMaxFrameBytes. False for a rank of another host. Blocks: never.
  bool send(int to, std::span<const std::byte> frame);

  /// Moves queued frames on, delivers what is there; true where anything was delivered.
  bool poll(const ChannelEvents& events) {
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
    return found != 0 || losses_.has_news();
  }
  bool poll_slowly(const ChannelEvents& events);
  bool poll_senders(std::size_t word, const ChannelEvents& events);
  bool drain(int from, const ChannelEvents& events);
  void on_loss(const LostRank& lost, const ChannelEvents& events);
  void lose(const LostRank& lost, const ChannelEvents& events);
  void flush_blocked() noexcept;
  void notify(int peer) noexcept;
  void kick_word(std::size_t word) noexcept;
  [[nodiscard]] bool has_reader() const noexcept;
  void flush_before_leaving() noexcept;

  const std::unique_ptr<HostSegment> segment_;
  const int position_;
  const pid_t process_;
  const std::size_t words_;
  Inbox& inbox_;
  Doorbell doorbell_;
  HostWatch watch_;
  LossReader losses_;
  std::vector<Peer> peers_;          // by position
  Bits unkicked_{};                  // peers with news since their last kick
  std::uint64_t blocked_count_ = 0;  // peers with queued frames
  bool closed_ = false;
};

}  // namespace ronde::net
