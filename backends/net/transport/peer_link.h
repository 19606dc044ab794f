// The transfers with one peer, and the connection that carries them.
//
// The higher rank of a pair dials, the lower accepts. Each message is 8 bytes of length and the
// data. Lengths beyond kLargestLength are words of the connection itself. The dialer's first word
// is kBegin: it has given up its earlier attempts. The accepting side uses no connection before
// that. An idle connection ends by agreement: see end_agreement.h.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "backends/net/link/connection_manager.h"
#include "backends/net/transport/end_agreement.h"
#include "core/base/clock.h"
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
  [[nodiscard]] bool has_posted() const noexcept { return !sends_.empty() || !receives_.empty(); }
  /// True while transfers are not done.
  [[nodiscard]] bool busy() const noexcept {
    return done_sends_ != posted_sends_ || !receives_.empty();
  }
  /// True where the connection may be asked to end.
  [[nodiscard]] bool idle() const noexcept;

  /// Each returns the number of the transfer: the first is 0. They end in this order.
  std::uint64_t post_send(std::span<const std::byte> data);
  std::uint64_t post_receive(std::span<std::byte> data);
  [[nodiscard]] bool sent(std::uint64_t number) const noexcept { return done_sends_ > number; }
  [[nodiscard]] bool received(std::uint64_t number) const noexcept {
    return done_receives_ > number;
  }

  /// Uses a connection that was dialed here, or accepted once its dialer begins.
  void attach(Link link);
  /// True while transfers wait for a connection that the peer must make, and none has come.
  [[nodiscard]] bool awaits_peer() const noexcept {
    return !dials_ && busy() && !connected() && candidates_.empty();
  }
  /// Holds a connection that carries nothing. It ends when the peer leaves the group.
  void watch(Link link) {
    if (dials_ || !connected()) watched_ = std::move(link);
  }
  [[nodiscard]] bool watches() const noexcept { return watched_.stream.valid(); }

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
      for (const Candidate& candidate : candidates_) add(candidate.link.stream.fd(), POLLIN);
      if (watches()) add(watched_.stream.fd(), POLLIN);
      return;
    }
    add(link_.stream.fd(), (listens() ? POLLIN : 0) | (may_send() ? POLLOUT : 0));
  }
  /// Calls `add(fd)` for each descriptor that may bring words to tend().
  template <typename Add>
  void for_each_idle(Add add) const {
    for (const Candidate& candidate : candidates_) add(candidate.link.stream.fd());
    if (connected() && failed_.ok() && !announced_) add(link_.stream.fd());
    if (dials_ && watches()) add(watched_.stream.fd());
  }
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept {
    return listens() && connected() && link_.stream.has_unread();
  }

 private:
  using Word = std::array<std::byte, 8>;
  struct Outgoing {
    Word header;
    std::span<const std::byte> data;
    bool counts = true;    // false: a word of the connection
    bool closes = false;   // it is the last word
    std::size_t sent = 0;  // header included
  };
  struct Incoming {
    std::span<std::byte> data;
    std::size_t received = 0;
  };
  /// Bytes of a word that have arrived.
  struct PartialWord {
    Word bytes{};
    std::size_t received = 0;
  };
  /// An accepted connection whose dialer has not begun yet.
  struct Candidate {
    Link link;
    PartialWord word;
  };

  /// True where what has arrived is read now.
  [[nodiscard]] bool listens() const noexcept { return !receives_.empty() || agreement_.granted(); }
  /// True where the first of `sends_` may go out.
  [[nodiscard]] bool may_send() const noexcept {
    return !sends_.empty() && !(agreement_.granted() && sends_.front().counts);
  }
  void say(std::optional<EndWord> word);
  Status on_word(std::uint64_t word);
  void end();
  void drop_words();
  Status judge_end(const Status& error);
  Status send_turns(bool& more);
  Status receive_turns(bool& more);
  Status send_some(bool& blocked);
  Status receive_some(bool& blocked);
  Status receive_word(bool& blocked);
  Status receive_data(bool& blocked);
  Status look_for_departure();
  void look_for_begin();
  static Result<std::optional<std::uint64_t>> read_word(Stream& stream, PartialWord& word);

  const bool dials_;
  Link link_;
  std::vector<Candidate> candidates_;
  Link watched_;
  std::deque<Outgoing> sends_;
  std::deque<Incoming> receives_;
  PartialWord word_;
  std::optional<std::uint64_t> announced_;  // length of the message that comes next
  EndAgreement agreement_{dials_};
  bool tended_ = false;  // words are read though nothing is posted
  int departures_ = 0;   // watched connections that ended, since a connection began
  Status failed_;        // found while nothing was posted
  std::uint64_t posted_sends_ = 0;
  std::uint64_t posted_receives_ = 0;
  std::uint64_t done_sends_ = 0;
  std::uint64_t done_receives_ = 0;
};

}  // namespace ronde::net
