// Frames between ranks of different hosts, over one authenticated TCP connection per pair. One
// thread of the process reads, and writes what could not be written at once.
//
// A link is lost when its socket closes without a goodbye, or when nothing is heard for the link
// timeout: each side sends a heartbeat every quarter of it, the only timer here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/net/tcp_meeting.h"
#include "core/base/clock.h"

namespace ronde::net {

/// How a remote rank was lost.
enum class Loss : std::uint8_t {
  kLeft,    ///< It said goodbye.
  kDied,    ///< A rank of its host says so.
  kClosed,  ///< Its connection closed without a goodbye.
  kSilent,  ///< Nothing was heard for the link timeout.
};

/// What TcpLinks::poll found.
struct LinkEvents {
  std::function<void(int from, std::span<const std::byte>)> on_frame;
  /// Perhaps several times for one rank.
  std::function<void(int rank, Loss how)> on_lost;
};

/// What the links tell the process they live in. Called in their thread, after poll() has it too.
struct LinkHooks {
  std::function<void()> frame_arrived;
  std::function<void(int rank, Loss how)> rank_lost;
};

/// Threads: one at a time, but for what is said otherwise.
class TcpLinks {
 public:
  /// `link_timeout` zero: silence is never a failure.
  TcpLinks(std::vector<Link> links, Duration link_timeout, LinkHooks hooks);
  ~TcpLinks();
  TcpLinks(const TcpLinks&) = delete;
  TcpLinks& operator=(const TcpLinks&) = delete;

  /// Queues a frame to a linked rank. Blocks: never.
  void send(int to, std::span<const std::byte> frame);

  /// Tells all linked ranks that a rank of this host died. Blocks: never. Threads: any.
  void tell_died(int rank);

  /// Delivers what has arrived; true where there was anything. Blocks: never.
  bool poll(const LinkEvents& events) {
    return arrived().load(std::memory_order_seq_cst) && poll_slowly(events);
  }

  /// Sends what is queued, says goodbye and waits until the peers have read it, 1 s at most.
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
