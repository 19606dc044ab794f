// The transfers with one peer, and the connection that carries them.
//
// The higher rank of a pair dials, the lower accepts. The dialer's first word is kBegin: it has
// given up its earlier attempts. The accepting side uses no connection before that. An idle
// connection ends by agreement: see end_agreement.h.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "backends/net/link/connection_manager.h"
#include "backends/net/transport/end_agreement.h"
#include "backends/net/transport/message_receives.h"
#include "backends/net/transport/message_sends.h"
#include "backends/net/transport/pending_links.h"
#include "core/base/status.h"

namespace ronde::net {

/// Moves the transfers of one pair of ranks. No call blocks. Threads: one.
/// Errors of its members: as Stream; kInternal where the peer sent another length than was
/// expected.
class PeerLink {
 public:
  /// `dials`: this rank makes the connection.
  explicit PeerLink(bool dials) noexcept : dials_(dials) {}

  [[nodiscard]] bool dials() const noexcept { return dials_; }
  /// True once a connection carries the transfers.
  [[nodiscard]] bool connected() const noexcept { return link_.stream.valid(); }
  /// True while transfers or words are not done.
  [[nodiscard]] bool has_posted() const noexcept { return !sends_.empty() || receives_.busy(); }
  /// True while transfers are not done.
  [[nodiscard]] bool busy() const noexcept { return sends_.busy() || receives_.busy(); }
  /// True where the connection may be asked to end.
  [[nodiscard]] bool idle() const noexcept;

  /// Each returns the number of the transfer: the first is 0. They end in this order.
  std::uint64_t post_send(std::span<const std::byte> data);
  std::uint64_t post_receive(std::span<std::byte> data);
  [[nodiscard]] bool sent(std::uint64_t number) const noexcept { return sends_.sent(number); }
  [[nodiscard]] bool received(std::uint64_t number) const noexcept {
    return receives_.received(number);
  }

  /// Takes a connection. One that the higher rank dialed is used: here once its dialer begins.
  /// Another one carries nothing, and is held: it ends when the peer leaves the group.
  void attach(Link link);
  /// True while transfers wait for a connection that the peer must make, and none has come.
  [[nodiscard]] bool awaits_peer() const noexcept {
    return !dials_ && busy() && !connected() && pending_.empty();
  }
  /// True while a connection is held that carries nothing.
  [[nodiscard]] bool watches() const noexcept { return pending_.watches(); }

  /// Asks the peer to end the connection, which is idle().
  void ask_to_end();
  /// Moves the words of a connection that is not busy(). Its error counts once it is used again.
  void tend();
  /// Drops what has arrived, when the group ends. True while the peer's host lacks sent bytes that
  /// a reset would lose: a word that comes after the end causes one.
  [[nodiscard]] bool undelivered();

  /// Move what the connection takes and gives now; `more` becomes true where more may move without
  /// a poll().
  Status progress_sends(bool& more);
  Status progress_receives(bool& more);

  /// Calls `add(fd, events)` for each descriptor whose events move posted transfers on.
  template <typename Add>
  void for_each_wait(Add add) const {
    if (!has_posted()) return;
    if (!connected()) {
      const auto add_reading = [&](int fd) { add(fd, POLLIN); };
      pending_.for_each_candidate(add_reading);
      pending_.for_watched(add_reading);
      return;
    }
    const bool may_send = sends_.may_send(agreement_.granted());
    add(link_.stream.fd(), (listens() ? POLLIN : 0) | (may_send ? POLLOUT : 0));
  }
  /// Calls `add(fd)` for each descriptor that may bring words to tend().
  template <typename Add>
  void for_each_idle(Add add) const {
    pending_.for_each_candidate(add);
    if (connected() && failed_.ok() && !receives_.in_message()) add(link_.stream.fd());
    if (dials_) pending_.for_watched(add);
  }
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept {
    return listens() && connected() && link_.stream.has_unread();
  }

 private:
  /// True where what has arrived is read now.
  [[nodiscard]] bool listens() const noexcept { return receives_.busy() || agreement_.granted(); }
  void say(std::optional<EndWord> word);
  Status on_word(std::uint64_t word);
  void end();
  Status judge_end(const Status& error);
  Status send_turns(bool& more);
  Status receive_turns(bool& more);

  const bool dials_;
  Link link_;
  PendingLinks pending_;
  MessageSends sends_;
  MessageReceives receives_;
  EndAgreement agreement_{dials_};
  bool tended_ = false;  // words are read though nothing is posted
  Status failed_;        // found while nothing was posted
};

}  // namespace ronde::net
