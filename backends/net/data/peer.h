// One peer of a transport: its connections, what they share, and its dials.
#pragma once

#include <poll.h>

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/net/connection/outage.h"
#include "backends/net/connection/socket.h"
#include "backends/net/data/chunk_exchange.h"
#include "backends/net/data/tcp_transport.h"
#include "backends/net/data/windows.h"
#include "backends/net/mesh/connection_manager.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

// The connection with one peer over one network interface, through all that replace one another.
//
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
  /// True where a connection is needed and none is under way.
  [[nodiscard]] bool wants_connection() const noexcept;
  /// True while connections were closed before a greeting: the next one has time.
  [[nodiscard]] bool is_slowed() const noexcept { return refusals_ > 0; }
  /// True once a connection has carried chunks.
  [[nodiscard]] bool was_connected() const noexcept { return attempt_ != 0; }
  /// True where the peer's process closed several new connections before a greeting: it has left
  /// the group.
  [[nodiscard]] bool is_refused() const noexcept;

  /// Moves what the connections take and give now; `more`: more may move without a poll(). `tends`:
  /// reads a connection that carries nothing too. One that heals and breaks is an outage, no error.
  /// Errors: kInvalidArgument where encrypted bytes were changed; kInternal where the peer sent
  /// another length than was expected, or what cannot be; as Stream without a window.
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
  Status judge(const Status& error);
  void begin_outage(TimePoint since, std::string reason);

  const ConnectionArgs args_;
  std::optional<ChunkExchange> exchange_;  // over the connection in use
  std::list<Candidate> candidates_;
  std::optional<Asking> asking_;
  bool asked_ = false;             // by the peer, for another connection, in vain so far
  std::uint64_t attempt_ = 0;      // of the connection in use: the dialer counts
  std::uint64_t last_dialed_ = 0;  // attempt
  int refusals_ = 0;               // in a row: connections that were closed before a greeting
  TimePoint refused_since_;
  OutageLog outages_;
};

// The transfers with one peer of a transport, over one network interface or several at once, the
// dials that they need, and the outages that are worth a report.
//
// Each interface has a connection. Where they heal, messages are cut into chunks, and a connection
// takes the next one when its socket has room. So an interface carries the share that it can, and
// the shares follow when it changes. What a connection that breaks or falls silent has not
// delivered goes over the others.

/// Errors are those of the transport: nothing moves any more. No call blocks. Threads: one at a
/// time.
class Peer {
 public:
  /// `needs` outlive it. `rank` is that in the group.
  Peer(int rank, const PeerNeeds& needs);

  /// Each returns the number of the transfer: the first is 0. They end in this order.
  std::uint64_t post_send(std::span<const std::byte> data);
  std::uint64_t post_receive(std::span<std::byte> data);
  [[nodiscard]] bool sent(std::uint64_t number) const noexcept {
    return windows_.sends.sent(number);
  }
  [[nodiscard]] bool received(std::uint64_t number) const noexcept {
    return windows_.receives.received(number);
  }

  /// Takes a connection that was made.
  void take_link(std::size_t interface, Link made);
  /// Takes the end of a dial. Nobody needs a connection with a peer that has ended after all
  /// transfers, nor an interface that does not work beside one that does.
  Status take_failure(std::size_t interface, const Status& why);

  /// Connects over all interfaces where that is needed.
  Status connect();
  /// One turn of all connections; `more` becomes true where more may move without a poll().
  Status progress(bool& more);
  /// The sending half of it.
  Status progress_sends(bool& more);
  /// The slow part of a turn: silence, limits and new connections.
  Status look(TimePoint time);
  /// True while looks are needed.
  [[nodiscard]] bool needs_looks() const noexcept { return any(&Connection::needs_looks); }
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept { return any(&Connection::has_unread); }
  /// As Connection::for_each_wait, for all connections.
  template <typename Add>
  void for_each_wait(Add add) const {
    if (!is_active()) return;
    for (const Connection& each : connections_) each.for_each_wait(add);
  }

  // Without a window, the manager's thread serves connections that carry nothing.

  /// Answers what the peer says on them, and has them watched. An error counts once a transfer is
  /// posted.
  void tend();
  /// When the peer was last used; kForever where the connection over the interface may not rest.
  [[nodiscard]] TimePoint idle_since(std::size_t interface) const noexcept {
    return connections_[interface].may_rest() ? last_use_ : kForever;
  }
  /// Asks the peer to close that one, if it is idle.
  void rest(std::size_t interface);
  /// Drops what has arrived, when the group ends. False while the peer's host lacks sent bytes that
  /// a reset would lose: a word that comes after the end causes one.
  [[nodiscard]] bool drain();

  /// True once a connection has carried chunks.
  [[nodiscard]] bool was_connected() const noexcept { return any(&Connection::was_connected); }
  /// True once the peer has left the group, with all its data here or by its refusals.
  [[nodiscard]] bool peer_left() const noexcept {
    return windows_.receives.peer_left() || any(&Connection::is_refused);
  }
  /// Informs the peer, after all that was posted, that this rank leaves.
  void post_goodbye() { windows_.sends.post_goodbye(); }
  /// True once the peer lacks nothing that this rank sent, or has no use for it, or has ended.
  [[nodiscard]] bool may_end() const noexcept;
  /// Closes all connections.
  void close() noexcept;

 private:
  [[nodiscard]] bool any(bool (Connection::*is)() const noexcept) const noexcept;
  [[nodiscard]] const Members& members() const noexcept { return needs_.args.members; }
  [[nodiscard]] bool heals() const noexcept { return windows_.heals(); }
  /// False where no turn of the caller has anything to do.
  [[nodiscard]] bool is_active() const noexcept {
    return heals() || windows_.has_posted() ||
           !std::ranges::all_of(connections_, &Connection::is_quiet);
  }
  void note_post();
  Status turn(bool& more, bool tends);
  void defer(const Status& error);
  void connect(std::size_t interface);
  void dial(std::size_t interface);
  [[nodiscard]] Status check() const;
  [[nodiscard]] Status check_outage(std::size_t interface) const;
  void report_outages();
  void leave_out(std::size_t interface, const std::string& reason);
  /// True where an interface may be left out beside those that work.
  [[nodiscard]] bool goes_on() const noexcept {
    return !needs_.args.needs_all_interfaces && any(&Connection::works);
  }

  const int rank_;
  const PeerNeeds& needs_;
  const bool dials_;  // this rank makes the connections
  PeerWindows windows_;
  std::deque<Connection> connections_;  // by interface
  TimePoint last_use_;
  TimePoint posted_since_ = kForever;  // the first of the transfers that are not done
  std::bitset<kMostInterfaces> dialing_;
  std::bitset<kMostInterfaces> left_out_;  // the user knows
  bool ended_ = false;                     // its process refuses connections
  Status failed_;                          // found while nothing was posted
};

}  // namespace ronde::net
