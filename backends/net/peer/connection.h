// The connection with one peer over one network interface, through all that replace one another.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/net/connection/outage.h"
#include "backends/net/connection/tcp_progress.h"
#include "backends/net/mesh/connection_manager.h"
#include "backends/net/peer/chunk_exchange.h"
#include "backends/net/peer/windows.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

// The higher rank of a pair dials, the lower accepts. The dialer greets on each new connection; it
// has given up its earlier attempts. The lower rank uses no connection before that. A connection
// that the lower rank dials carries nothing: it ends when the higher rank leaves the group.
//
// With a window of bytes it heals: one that breaks is replaced. Both greet then: which attempt it
// is, and how far each has received. The chunks that the peer lacks are sent again. A connection
// that the lower rank dials asks the higher one to dial. With a window of 0 a break is an error.
//
// One that carries nothing may rest: both agree to close it, and it is made again once it is
// needed. That is no outage.

/// One connection with a peer. No call blocks. Threads: one at a time.
class Connection {
 public:
  explicit Connection(const ConnectionArgs& args) noexcept : args_(args) {}

  /// Closes all connections.
  void close() noexcept;
  /// True where it has nothing to send now.
  [[nodiscard]] bool is_quiet() const noexcept {
    return !works() || !exchange_->has_output(may_take());
  }
  /// True while a connection is in use, as far as it is known.
  [[nodiscard]] bool works() const noexcept {
    return exchange_ && !exchange_->is_silent() && !asked_;
  }

  /// A new connection, dialed here or accepted.
  void attach(Link link);
  /// True where none works or is under way.
  [[nodiscard]] bool lacks_connection() const noexcept { return !works() && !under_way(); }
  /// True where a connection is needed and none is under way.
  [[nodiscard]] bool wants_connection() const noexcept;
  /// True while connections were closed before a greeting: the next one has time.
  [[nodiscard]] bool is_slowed() const noexcept { return refusals_ > 0; }
  /// True once a connection has carried chunks.
  [[nodiscard]] bool was_connected() const noexcept { return attempt_ != 0; }
  /// The connection in use, also one that may be dead; null where there is none.
  [[nodiscard]] const ChunkExchange* exchange() const noexcept {
    return exchange_ ? &*exchange_ : nullptr;
  }
  /// As ChunkExchange::beat, where there is one.
  void beat(bool heartbeat) noexcept {
    if (exchange_) exchange_->beat(heartbeat);
  }
  /// True once the peer has sent a heartbeat over it.
  [[nodiscard]] bool heard_heartbeat() const noexcept {
    return exchange_ && exchange_->heard_heartbeat();
  }
  /// True while it has an answer to write, or a new one may.
  [[nodiscard]] bool answers() const noexcept {
    return exchange_ ? exchange_->has_output(/*takes=*/false) : !candidates_.empty();
  }
  /// Tells it apart from those before.
  [[nodiscard]] std::uint64_t attempt() const noexcept { return attempt_; }
  /// True while chunks of the peer may come.
  [[nodiscard]] bool may_deliver() const noexcept {
    return exchange_ || !candidates_.empty() || outages_.lasting();
  }
  /// True where the peer's process closed several new connections before a greeting: it has left
  /// the group.
  [[nodiscard]] bool is_refused() const noexcept;

  /// Moves what the connections take and give now; `more`: more may move without a poll(). `tends`:
  /// reads a connection that carries nothing too. One that heals and breaks is an outage, no error.
  /// Errors: kInvalidArgument where encrypted bytes were changed; kInternal where the peer sent
  /// another length than was expected, or what cannot be; kCorrupted where checksums are wrong
  /// again and again; as Stream and ChunkStream without a window.
  Status progress(bool& more, bool tends = false);
  /// The sending half of it alone.
  Status progress_sends(bool& more);

  /// Reads a chunk no longer into its receive where another connection has brought it.
  void drop_known_chunk() {
    if (exchange_) exchange_->drop_known_chunk();
  }

  /// Finds connections that are silent.
  void look(TimePoint time);
  /// True while looks are needed.
  [[nodiscard]] bool needs_looks() const noexcept;
  /// True where the connection carries nothing and may rest.
  [[nodiscard]] bool may_rest() const noexcept {
    return works() && exchange_->may_rest() && !under_way();
  }
  /// Asks the peer for that.
  void rest() { exchange_->ask_to_rest(); }
  /// Drops what has arrived. True where the peer's host has all that was written.
  bool drain() { return !exchange_ || exchange_->drain(); }

  /// Nobody needs another connection: its lack is no outage.
  void forget_outage() noexcept { outages_.drop(); }
  /// The outage that lasts.
  [[nodiscard]] const std::optional<LinkOutage>& outage() const noexcept {
    return outages_.lasting();
  }
  /// The outages that have ended, once.
  std::vector<LinkOutage> take_ended_outages() { return outages_.take_ended(); }

  /// Calls `add(fd, events)` for each descriptor whose events move something on.
  template <typename Add>
  void for_each_wait(Add add) const {
    for_each_new(add);
    if (!exchange_) return;
    const bool writes = exchange_->has_output(may_take());
    add(exchange_->fd(), (exchange_->reads() ? POLLIN : 0) | (writes ? POLLOUT : 0));
  }
  /// Calls `add(fd)` for each descriptor whose input concerns a connection that carries nothing.
  template <typename Add>
  void for_each_idle(Add add) const {
    for_each_new([&](int fd, int) { add(fd); });
    if (exchange_ && exchange_->reads(/*tends=*/true)) add(exchange_->fd());
  }
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept;

 private:
  /// A new connection before it carries chunks. Where connections heal both ranks greet, and soon,
  /// as a thread drives each. Else only the dialer does, once its caller waits.
  struct Candidate {
    GreetedConnection connection;
    TimePoint since;
    SilenceClock silence = {};
  };
  /// The connection by which the lower rank asks for another. Both hold it until there is a new
  /// one. It ends early where the peer has left.
  struct Asking {
    Link link;
    TimePoint since;
  };

  [[nodiscard]] bool heals() const noexcept { return args_.windows.heals(); }
  /// False where others carry the share of this connection, which may be dead.
  [[nodiscard]] bool may_take() const noexcept { return !args_.shares || works(); }
  [[nodiscard]] bool needed() const noexcept { return !args_.windows.is_idle() || asked_; }

  /// True while a new connection may come.
  [[nodiscard]] bool under_way() const noexcept {
    return !candidates_.empty() || (!args_.dials && asking_);
  }
  template <typename Add>
  void for_each_new(Add add) const {
    for (const Candidate& candidate : candidates_) {
      const ChunkStream& chunks = candidate.connection.chunks;
      add(chunks.fd(), chunks.writing() ? POLLIN | POLLOUT : POLLIN);
    }
    if (asking_) add(asking_->link.stream.fd(), POLLIN);
  }

  Status greet();
  Result<bool> has_greeting(ChunkStream& chunks);
  void look_for_departure();
  void look_at_new(TimePoint time);
  void note_refusal() noexcept;
  Status use(GreetedConnection connection);
  void drop_connection() noexcept;
  Status receive(bool tends, bool& more);
  Status read_to_the_end(const Status& broken);
  Status judge(const Status& error);
  [[nodiscard]] bool is_worth_another_try() noexcept;
  void begin_outage(LinkOutage outage);

  const ConnectionArgs args_;
  std::optional<ChunkExchange> exchange_;  // over the connection in use
  std::list<Candidate> candidates_;
  std::optional<Asking> asking_;
  bool asked_ = false;             // by the peer, for another connection, in vain so far
  std::uint64_t attempt_ = 0;      // of the connection in use: the dialer counts
  std::uint64_t last_dialed_ = 0;  // attempt
  int refusals_ = 0;               // in a row: connections that were closed before a greeting
  TimePoint refused_since_;
  int corruptions_ = 0;  // in a row
  std::uint64_t received_before_ = 0;
  OutageLog outages_;
};

}  // namespace ronde::net
