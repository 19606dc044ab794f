#include "backends/net/transport/peer_link.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <array>
#include <utility>

namespace ronde::net {
namespace {

constexpr int kTurns = 4;  // then the other direction has its turn

}  // namespace

std::uint64_t PeerLink::post_send(std::span<const std::byte> data) {
  say(agreement_.use());
  return sends_.post(data);
}

std::uint64_t PeerLink::post_receive(std::span<std::byte> data) {
  say(agreement_.use());
  return receives_.post(data);
}

void PeerLink::attach(Link link) {
  if (link.dialed != dials_) {
    if (dials_ || !connected()) pending_.watch(std::move(link));
  } else if (!dials_) {
    // A peer that has left by agreement may be faster than its last word here.
    if (!connected() || agreement_.granted()) pending_.add(std::move(link));
  } else {
    link_ = std::move(link);
    sends_.begin_connection();
  }
}

bool PeerLink::idle() const noexcept {
  return connected() && !has_posted() && !receives_.in_message() && !receives_.in_word() &&
         agreement_.may_ask() && failed_.ok();
}

void PeerLink::ask_to_end() { say(agreement_.ask()); }

void PeerLink::say(std::optional<EndWord> word) {
  link_.counted.set_ending(agreement_.ending());
  if (!word) return;
  sends_.post_word(kLargestLength + static_cast<std::uint64_t>(*word), word == EndWord::kClose);
}

Status PeerLink::on_word(std::uint64_t word) {
  const auto said = static_cast<EndWord>(word - kLargestLength);
  RONDE_ASSIGN_OR_RETURN(const auto answer, agreement_.on_word(said, busy()));
  say(answer);
  if (said == EndWord::kClose) end();
  return {};
}

/// The connection has ended by agreement; the next transfer needs another one.
void PeerLink::end() {
  link_ = {};
  agreement_ = EndAgreement(dials_);
  receives_.drop_word();
  if (!dials_) pending_.stop_watching();
}

/// A peer that asked to end the connection may be faster than its last word.
Status PeerLink::judge_end(const Status& error) {
  const bool ends = agreement_.granted() || agreement_.closing();
  if (error.code() != Code::kUnavailable || !ends) return error;
  sends_.drop_words();
  end();
  return {};
}

void PeerLink::tend() {
  if (dials_) pending_.stop_watching_ended();
  tended_ = true;
  bool more = true;
  while (more && failed_.ok()) {
    more = false;
    failed_ = progress_receives(more);
    if (failed_.ok()) failed_ = progress_sends(more);
  }
  tended_ = false;
  if (failed_.ok()) return;
  link_ = {};
  sends_.drop_words();
}

bool PeerLink::undelivered() {
  if (!connected()) return false;
  std::array<std::byte, 4096> dropped{};
  const iovec piece{dropped.data(), dropped.size()};
  auto got = link_.stream.receive({&piece, 1});
  while (got.ok() && *got != 0) got = link_.stream.receive({&piece, 1});
  int waiting = 0;
  return got.ok() && ::ioctl(link_.stream.fd(), SIOCOUTQ, &waiting) == 0 && waiting > 0;
}

Status PeerLink::progress_sends(bool& more) {
  RONDE_RETURN_IF_ERROR(failed_);
  return judge_end(send_turns(more));
}

Status PeerLink::send_turns(bool& more) {
  const auto sends = [&] { return connected() && sends_.may_send(agreement_.granted()); };
  bool blocked = false;
  for (int turn = 0; turn < kTurns && !blocked && sends(); ++turn) {
    RONDE_ASSIGN_OR_RETURN(const auto step, sends_.step(link_.stream));
    blocked = step == MessageSends::Step::kBlocked;
    if (step == MessageSends::Step::kClosed) end();
  }
  more = more || (!blocked && sends());
  return {};
}

Status PeerLink::progress_receives(bool& more) {
  RONDE_RETURN_IF_ERROR(failed_);
  if (!connected()) {
    auto begun = pending_.take_begun();
    if (!begun) return awaits_peer() ? pending_.look_for_departure() : Status();
    link_ = std::move(*begun);
  }
  return judge_end(receive_turns(more));
}

Status PeerLink::receive_turns(bool& more) {
  const auto reads = [&] {
    return connected() && (listens() || (tended_ && !receives_.in_message()));
  };
  bool blocked = false;
  for (int turn = 0; turn < kTurns && !blocked && reads(); ++turn) {
    RONDE_ASSIGN_OR_RETURN(const auto step, receives_.step(link_.stream));
    blocked = step == MessageReceives::Step::kBlocked;
    if (step == MessageReceives::Step::kWord) RONDE_RETURN_IF_ERROR(on_word(receives_.word()));
    // Both sides use the same connection now.
    if (step == MessageReceives::Step::kMessage) pending_.stop_watching();
  }
  more = more || (!blocked && reads());
  return {};
}

}  // namespace ronde::net
