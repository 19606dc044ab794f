// The transfers with one peer of a transport, over one network interface or several at once, the
// dials that they need, and the outages that are worth a report.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "backends/net/connection/socket.h"
#include "backends/net/data/tcp_transport.h"
#include "backends/net/mesh/connection_manager.h"
#include "backends/net/peer/connection.h"
#include "backends/net/peer/windows.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

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
