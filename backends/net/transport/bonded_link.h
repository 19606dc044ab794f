// A connection with one peer that is replaced when it breaks.
//
// The higher rank of a pair dials, the lower accepts. Both greet on each new connection: which
// attempt it is, and how far each has received. Then the chunks that the peer lacks are sent
// again. A connection that the lower rank dials carries nothing: it asks the higher one to dial.
//
// One that carries nothing may rest: both agree to close it, and it is made again once it is
// needed. That is no outage.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/net/link/connection_manager.h"
#include "backends/net/link/outage.h"
#include "backends/net/transport/chunk_exchange.h"
#include "backends/net/transport/greetings.h"
#include "backends/net/transport/peer_windows.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// One connection with a peer. No call blocks. Threads: one at a time.
class BondedLink {
 public:
  explicit BondedLink(const Lane& lane) noexcept : lane_(lane), greetings_(lane.dials) {}

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
  /// True where a connection is needed and none is under way.
  [[nodiscard]] bool wants_connection() const noexcept;
  /// True while connections were closed before a greeting: the next one has time.
  [[nodiscard]] bool is_slowed() const noexcept { return greetings_.is_slowed(); }
  /// True once a connection has carried chunks.
  [[nodiscard]] bool was_connected() const noexcept { return attempt_ != 0; }
  /// True where the peer's process closed several new connections before a greeting: it has left
  /// the group.
  [[nodiscard]] bool is_refused() const noexcept { return greetings_.is_refused(); }

  /// Moves what the connections take and give now. One that breaks is an outage, no error.
  /// Errors: kInvalidArgument where sealed bytes were changed; kInternal where the peer sent
  /// another length than was expected, or what cannot be.
  Status progress(bool& moved);
  /// The sending half of it alone.
  Status progress_sends(bool& moved);

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
    return works() && exchange_->may_rest() && !greetings_.under_way();
  }
  /// Asks the peer for that.
  void rest() noexcept { exchange_->ask_to_rest(); }
  /// When the connection was last used.
  [[nodiscard]] TimePoint last_progress() const noexcept { return last_progress_; }

  /// The outage that lasts. It begins with the last progress.
  [[nodiscard]] const std::optional<LinkOutage>& outage() const noexcept {
    return outages_.lasting();
  }
  /// The outages that have ended, once.
  std::vector<LinkOutage> take_ended_outages() { return outages_.take_ended(); }

  /// Calls `add(fd, events)` for each descriptor whose events move something on.
  template <typename Add>
  void for_each_wait(Add add) const {
    greetings_.for_each_wait(add);
    if (!exchange_) return;
    add(exchange_->fd(), exchange_->has_output(may_take()) ? POLLIN | POLLOUT : POLLIN);
  }
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept {
    return (exchange_ && exchange_->has_unread()) || greetings_.has_unread();
  }

 private:
  /// False where others carry the share of this connection, which may be dead.
  [[nodiscard]] bool may_take() const noexcept { return !lane_.shares || works(); }
  [[nodiscard]] bool needed() const noexcept { return !lane_.windows.is_idle() || asked_; }

  Status greet(bool& moved);
  Status use(GreetedConnection connection);
  void drop_connection() noexcept;
  Status receive(bool& moved);
  Status judge(const Status& error);
  void begin_outage(TimePoint since, std::string reason);

  const Lane lane_;
  std::optional<ChunkExchange> exchange_;  // over the connection in use
  Greetings greetings_;
  bool asked_ = false;         // by the peer, for another connection
  std::uint64_t attempt_ = 0;  // of the connection in use
  TimePoint last_progress_;
  OutageLog outages_;
};

}  // namespace ronde::net
