// One link of TcpLinks: its socket, its queue of output and its partial input. The side that dialed
// begins with a frame of its own (kBegin). A dialer may have given up a connection that the other
// side has accepted, so that side uses none before its first message.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backends/net/connection/frame.h"
#include "backends/net/connection/tcp_progress.h"
#include "backends/net/control/losses.h"
#include "backends/net/control/peer_liveness.h"
#include "backends/net/mesh/connection_manager.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"

namespace ronde::net {

class TcpLink;

/// Notifications of the owner, in the I/O thread.
struct LinkSink {
  /// An accepted link is in use from here on.
  std::function<void(TcpLink& link)> on_begin;
  std::function<void(TcpLink& from, const FrameHead& head, std::span<const std::byte>)> on_message;
  /// The link has ended: by a goodbye, or in another way. Once, and not before it has begun.
  std::function<void(TcpLink& link)> on_end;
};

/// One connection. Threads: send from any; the rest from the I/O thread.
class TcpLink {
 public:
  /// `limits`: as PeerLiveness. `sink` outlives it.
  TcpLink(asio::io_context& io, Link link, const LossLimits& limits, const LinkSink& sink);
  ~TcpLink();
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// True where this process has made it.
  [[nodiscard]] bool dialed() const noexcept { return dialed_; }
  /// True once both sides use it.
  [[nodiscard]] bool begun() const noexcept { return begun_; }

  /// The message that has ended it, if one has.
  [[nodiscard]] std::optional<FrameKind> ended_by() const noexcept { return ended_by_; }

  /// Begins to read.
  void start() { read_later(); }

  /// Writes what the socket takes now and queues the rest. Blocks: never.
  void send(const FrameHead& head, std::span<const std::byte> bytes = {}) RONDE_EXCLUDES(mutex_);

  /// Looks at the peer, each beat interval; `watched`: it sends heartbeats. A peer that is gone
  /// ends the link. True where it froze or came back.
  bool look(bool watched, TimePoint time);
  /// As the looks have found the peer; its loss once the link has ended.
  [[nodiscard]] const PeerLiveness& liveness() const noexcept { return liveness_; }

  /// Closes the connection and notifies the sink, once.
  void end(Loss how);
  [[nodiscard]] bool ended() const noexcept { return ended_; }

 private:
  struct Outgoing {
    FrameHead head;
    std::vector<std::byte> body;
    std::size_t written = 0;  // head included
  };
  static constexpr std::size_t kReadBytes = std::size_t{64} << 10;

  void read_later();
  void read_now();
  void on_read(std::size_t bytes);
  void take_messages();
  bool take_message(const FrameHead& head, std::span<const std::byte> bytes);
  void flush_later();
  void flush() RONDE_EXCLUDES(mutex_);
  bool write_queue() RONDE_REQUIRES(mutex_);

  const int rank_;
  const bool dialed_;
  const LinkSink& sink_;
  asio::io_context& io_;
  bool begun_;
  Stream stream_;
  asio::posix::stream_descriptor waiter_;  // waits for the stream's socket, which it never closes
  // I/O thread only.
  PeerLiveness liveness_;
  std::uint64_t received_ = 0;  // counts input
  std::uint64_t answers_ = 0;   // counts acknowledgements of the peer's host
  TcpProgress progress_;
  std::vector<std::byte> input_;
  std::size_t input_used_ = 0;
  bool ended_ = false;
  std::optional<FrameKind> ended_by_;
  // Any thread.
  Mutex mutex_;
  std::deque<Outgoing> queue_ RONDE_GUARDED_BY(mutex_);
  bool flushing_ RONDE_GUARDED_BY(mutex_) = false;
  bool closed_ RONDE_GUARDED_BY(mutex_) = false;
};

}  // namespace ronde::net
