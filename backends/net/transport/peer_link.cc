#include "backends/net/transport/peer_link.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace ronde::net {
namespace {

constexpr std::size_t kTurnBytes = std::size_t{4} << 20;  // then the other direction has its turn
constexpr int kTurns = 4;
constexpr std::size_t kLongRead = std::size_t{64} << 10;  // more arrives while so much is copied

/// Words of a connection are larger than any length.
constexpr std::uint64_t kBegin = ~std::uint64_t{0};
constexpr std::uint64_t kLargestLength = kBegin - 256;  // above: an EndWord, and kBegin

static_assert(std::endian::native == std::endian::little, "words go over the wire as they are");

std::array<std::byte, 8> word_of(std::uint64_t value) {
  return std::bit_cast<std::array<std::byte, 8>>(value);
}

/// The rest of header and data after `done` bytes, at most kTurnBytes, as two pieces.
std::array<iovec, 2> pieces(std::span<const std::byte> header, std::span<const std::byte> data,
                            std::size_t done) {
  const auto rest = header.subspan(std::min(done, header.size()));
  const auto tail = data.subspan(done > header.size() ? done - header.size() : 0);
  const auto address = [](std::span<const std::byte> span) {
    return const_cast<std::byte*>(span.data());
  };
  return {iovec{address(rest), rest.size()},
          iovec{address(tail), std::min(tail.size(), kTurnBytes)}};
}

/// Ok while a connection that carries nothing is open.
Status look_for_end(Stream& stream) {
  std::byte byte{};
  const iovec piece{&byte, 1};
  return stream.receive({&piece, 1}).status();
}

}  // namespace

std::uint64_t PeerLink::post_send(std::span<const std::byte> data) {
  say(agreement_.use());
  sends_.push_back({word_of(data.size()), data});
  return posted_sends_++;
}

std::uint64_t PeerLink::post_receive(std::span<std::byte> data) {
  say(agreement_.use());
  receives_.push_back({data});
  return posted_receives_++;
}

void PeerLink::attach(Link link) {
  if (!dials_) {
    // A peer that has left by agreement may be faster than its last word here.
    if (!connected() || agreement_.granted()) candidates_.push_back({std::move(link), {}});
    return;
  }
  link_ = std::move(link);
  sends_.push_front({word_of(kBegin), {}, /*counts=*/false});
}

bool PeerLink::idle() const noexcept {
  return connected() && !has_posted() && !announced_ && word_.received == 0 &&
         agreement_.may_ask() && failed_.ok();
}

void PeerLink::ask_to_end() { say(agreement_.ask()); }

void PeerLink::say(std::optional<EndWord> word) {
  link_.counted.set_ending(agreement_.ending());
  if (!word) return;
  const bool closes = word == EndWord::kClose;
  sends_.push_back({word_of(kLargestLength + static_cast<std::uint64_t>(*word)),
                    {},
                    /*counts=*/false,
                    closes});
}

Status PeerLink::on_word(std::uint64_t word) {
  const auto said = static_cast<EndWord>(word - kLargestLength);
  RONDE_ASSIGN_OR_RETURN(const auto answer, agreement_.on_word(said, busy()));
  say(answer);
  if (said == EndWord::kClose) end();
  return {};
}

void PeerLink::drop_words() {
  std::erase_if(sends_, [](const Outgoing& each) { return !each.counts; });
}

/// The connection has ended by agreement; the next transfer needs another one.
void PeerLink::end() {
  link_ = {};
  agreement_ = EndAgreement(dials_);
  word_ = {};
  if (!dials_) watched_ = {};
}

/// A peer that asked to end the connection may be faster than its last word.
Status PeerLink::judge_end(const Status& error) {
  const bool ends = agreement_.granted() || agreement_.closing();
  if (error.code() != Code::kUnavailable || !ends) return error;
  drop_words();
  end();
  return {};
}

void PeerLink::tend() {
  if (dials_ && watches() && !look_for_end(watched_.stream).ok()) watched_ = {};
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
  drop_words();
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
  const auto sends = [&] { return connected() && may_send(); };
  bool blocked = false;
  for (int turn = 0; turn < kTurns && !blocked && sends(); ++turn) {
    RONDE_RETURN_IF_ERROR(send_some(blocked));
  }
  more = more || (!blocked && sends());
  return {};
}

Status PeerLink::progress_receives(bool& more) {
  RONDE_RETURN_IF_ERROR(failed_);
  if (!candidates_.empty() && !connected()) look_for_begin();
  if (!connected()) return look_for_departure();
  return judge_end(receive_turns(more));
}

Status PeerLink::receive_turns(bool& more) {
  const auto reads = [&] { return connected() && (listens() || (tended_ && !announced_)); };
  bool blocked = false;
  for (int turn = 0; turn < kTurns && !blocked && reads(); ++turn) {
    RONDE_RETURN_IF_ERROR(receive_some(blocked));
  }
  more = more || (!blocked && reads());
  return {};
}

Status PeerLink::send_some(bool& blocked) {
  Outgoing& front = sends_.front();
  const std::size_t whole = front.header.size() + front.data.size();
  if (front.sent < whole) {
    RONDE_ASSIGN_OR_RETURN(const std::size_t sent,
                           link_.stream.send(pieces(front.header, front.data, front.sent)));
    blocked = sent == 0;
    if (blocked) return {};
    front.sent += sent;
  }
  if (front.sent < whole) return {};
  // A send is done once the socket has all: nobody writes the rest of it outside of a wait.
  RONDE_RETURN_IF_ERROR(link_.stream.flush());
  blocked = link_.stream.has_unsent();
  if (blocked) return {};
  if (front.counts) ++done_sends_;
  const bool closes = front.closes;
  sends_.pop_front();
  if (closes) end();
  return {};
}

Status PeerLink::receive_some(bool& blocked) {
  // The length alone first: its data is good only once it is known to fit.
  if (!announced_) RONDE_RETURN_IF_ERROR(receive_word(blocked));
  if (!announced_ || receives_.empty()) return {};
  if (*announced_ == receives_.front().data.size()) return receive_data(blocked);
  return {Code::kInternal, fmt::format("sent {} bytes where {} were expected", *announced_,
                                       receives_.front().data.size())};
}

/// The value of a word once all of it has arrived.
Result<std::optional<std::uint64_t>> PeerLink::read_word(Stream& stream, PartialWord& word) {
  const iovec rest{word.bytes.data() + word.received, word.bytes.size() - word.received};
  RONDE_ASSIGN_OR_RETURN(const std::size_t got, stream.receive({&rest, 1}));
  word.received += got;
  if (word.received < word.bytes.size()) return std::optional<std::uint64_t>();
  word.received = 0;
  return std::optional(std::bit_cast<std::uint64_t>(word.bytes));
}

Status PeerLink::receive_word(bool& blocked) {
  RONDE_ASSIGN_OR_RETURN(const auto word, read_word(link_.stream, word_));
  blocked = !word;
  if (blocked) return {};
  if (*word > kLargestLength) return on_word(*word);
  announced_ = word;
  return {};
}

Status PeerLink::receive_data(bool& blocked) {
  Incoming& front = receives_.front();
  const auto rest = front.data.subspan(front.received);
  if (!rest.empty()) {
    const iovec piece{rest.data(), std::min(rest.size(), kTurnBytes)};
    RONDE_ASSIGN_OR_RETURN(const std::size_t got, link_.stream.receive({&piece, 1}));
    blocked = got < std::min(piece.iov_len, kLongRead);  // poll() tells when more is there
    front.received += got;
  }
  if (front.received < front.data.size()) return {};
  receives_.pop_front();
  announced_.reset();
  ++done_receives_;
  watched_ = {};  // both sides use the same connection now
  return {};
}

/// The first accepted connection whose dialer begins is used. One that ends before was given up.
void PeerLink::look_for_begin() {
  for (auto it = candidates_.begin(); it != candidates_.end();) {
    const auto word = read_word(it->link.stream, it->word);
    if (word.ok() && !word->has_value()) {
      ++it;
      continue;
    }
    if (word.ok() && **word == kBegin) {
      link_ = std::move(it->link);
      watched_ = {};
      departures_ = 0;
      return candidates_.clear();
    }
    it = candidates_.erase(it);
  }
}

/// A connection that the peer made before it left may be in its handshake here. It is found before
/// a second watched connection, made later, ends.
Status PeerLink::look_for_departure() {
  if (!awaits_peer() || !watches()) return {};
  const Status end = look_for_end(watched_.stream);
  if (end.ok() || departures_++ > 0) return end;
  watched_ = {};
  return {};
}

}  // namespace ronde::net
