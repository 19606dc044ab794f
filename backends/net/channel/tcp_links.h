// Frames between ranks of different hosts, over one authenticated TCP connection per pair. One
// thread of the process reads, and writes the bytes that sockets did not take at once.
//
// Each side sends a heartbeat every beat interval (less often where there are many links), the only
// timer here. A link is lost when its socket closes without a goodbye. It is cut when the peer's
// host acknowledges nothing for the link timeout. The peer is frozen when its host acknowledges but
// the peer is silent for the freeze timeout.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/net/channel/silence_watch.h"
#include "backends/net/rendezvous/tcp_rendezvous.h"
#include "core/base/clock.h"

namespace ronde::net {

/// How a remote rank was lost.
enum class Loss : std::uint8_t {
  kLeft,         ///< It said goodbye.
  kDied,         ///< A rank of its host reported it.
  kClosed,       ///< Its connection closed without a goodbye.
  kUnreachable,  ///< Its host acknowledged nothing for the link timeout.
  kAltered,      ///< Its connection delivered what it did not send, see records.h.
  kFrozen,       ///< It did not run for the freeze timeout.
};

/// The limits of silence. Zero: none.
struct LossLimits {
  Duration link{0};
  Duration freeze{0};
};

/// The events of TcpLinks::poll.
struct LinkEvents {
  std::function<void(int from, std::span<const std::byte>)> on_frame;
  /// Perhaps several times for one rank.
  std::function<void(int rank, Loss how)> on_lost;
};

/// Notifications of the process. Called in the links' thread, after poll() has the event too.
struct LinkHooks {
  std::function<void()> frame_arrived;
  std::function<void(int rank, Loss how)> rank_lost;
  std::function<void(int rank, Silence what, Duration silence)> rank_silent;
};

/// The links of one rank. Threads: one at a time, unless a method says otherwise.
class TcpLinks {
 public:
  TcpLinks(std::vector<Link> links, LossLimits limits, LinkHooks hooks);
  ~TcpLinks();
  TcpLinks(const TcpLinks&) = delete;
  TcpLinks& operator=(const TcpLinks&) = delete;

  /// Queues a frame to a linked rank. Blocks: never.
  void send(int to, std::span<const std::byte> frame);

  /// Notifies all linked ranks that a rank of this host died or is given up. Blocks: never.
  /// Threads: any.
  void notify_lost(int rank, Loss how);

  /// Delivers what has arrived; true where there was anything. Blocks: never.
  bool poll(const LinkEvents& events) {
    return arrived().load(std::memory_order_seq_cst) && poll_slowly(events);
  }

  /// Sends what is queued and a goodbye, then waits until the peers have read it, 1 s at most.
  /// Idempotent; does nothing in a forked child.
  void close() noexcept;

 private:
  class Impl;
  [[nodiscard]] const std::atomic<bool>& arrived() const noexcept { return *arrived_; }
  bool poll_slowly(const LinkEvents& events);

  std::unique_ptr<Impl> impl_;
  const std::atomic<bool>* arrived_;
};

}  // namespace ronde::net
