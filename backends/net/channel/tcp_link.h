// One link of TcpLinks: its socket, its queue of output and its partial input.
// Private to tcp_link.cc and tcp_links.cc.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "backends/net/channel/tcp_links.h"
#include "backends/net/channel/tcp_progress.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"

namespace ronde::net {

/// The kind of a message on a link.
enum class LinkMessage : std::uint8_t {
  kFrame = 1,
  kHeartbeat = 2,
  kGoodbye = 3,
  kDied = 4,
  kFrozen = 5,
};

/// Notifications of the owner, in the I/O thread.
struct LinkSink {
  std::function<void(int from, LinkMessage kind, std::span<const std::byte>)> on_message;
  /// The link has ended: by a goodbye, or in another way. Once.
  std::function<void(int rank, Loss how)> on_end;
};

/// One connection. Threads: send from any; the rest from the I/O thread.
class TcpLink {
 public:
  /// `sink` outlives it.
  TcpLink(asio::io_context& io, Link link, const LinkSink& sink);
  ~TcpLink();
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }

  /// Begins to read.
  void start() { read_later(); }

  /// Writes what the socket takes now and queues the rest. Blocks: never.
  void send(LinkMessage kind, std::span<const std::byte> bytes) RONDE_EXCLUDES(mutex_);

  /// Changes with each input.
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
  /// Changes whenever the peer's host has acknowledged what was sent.
  [[nodiscard]] std::uint64_t acknowledged() noexcept;

  /// Closes the connection and notifies the sink, once.
  void end(Loss how);
  [[nodiscard]] bool ended() const noexcept { return ended_; }

 private:
  static constexpr std::size_t kReadBytes = std::size_t{64} << 10;

  void read_later();
  void read_now();
  void on_read(std::size_t bytes);
  void take_messages();
  bool take_message(LinkMessage kind, std::span<const std::byte> bytes);
  void flush_later();
  void flush() RONDE_EXCLUDES(mutex_);
  bool write_queue() RONDE_REQUIRES(mutex_);

  const int rank_;
  const LinkSink& sink_;
  asio::io_context& io_;
  Stream stream_;
  asio::posix::stream_descriptor waiter_;  // waits for the stream's socket, which it never closes
  // I/O thread only.
  std::uint64_t received_ = 0;
  std::uint64_t acknowledged_ = 0;
  TcpProgress progress_;
  std::vector<std::byte> input_;
  std::size_t input_used_ = 0;
  bool ended_ = false;
  // Any thread.
  Mutex mutex_;
  std::deque<std::vector<std::byte>> queue_ RONDE_GUARDED_BY(mutex_);
  std::size_t front_done_ RONDE_GUARDED_BY(mutex_) = 0;
  bool flushing_ RONDE_GUARDED_BY(mutex_) = false;
  bool closed_ RONDE_GUARDED_BY(mutex_) = false;
};

}  // namespace ronde::net
