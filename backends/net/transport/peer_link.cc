#include "backends/net/transport/peer_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace ronde::net {
namespace {

constexpr std::size_t kTurnBytes = std::size_t{4} << 20;  // then the other direction has its turn
constexpr int kTurns = 4;

/// Words of a connection; no message is as long.
constexpr std::uint64_t kBegin = ~std::uint64_t{0};

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

}  // namespace

std::uint64_t PeerLink::post_send(std::span<const std::byte> data) {
  sends_.push_back({word_of(data.size()), data});
  return posted_sends_++;
}

std::uint64_t PeerLink::post_receive(std::span<std::byte> data) {
  receives_.push_back({data});
  return posted_receives_++;
}

void PeerLink::attach(Link link) {
  if (!dials_) {
    if (!connected()) candidates_.push_back({std::move(link), {}});
    return;
  }
  link_ = std::move(link);
  sends_.push_front({word_of(kBegin), {}, /*counts=*/false});
}

Status PeerLink::progress_sends(bool& moved) {
  if (!connected()) return {};
  bool blocked = false;
  for (int turn = 0; turn < kTurns && !blocked && !sends_.empty(); ++turn) {
    RONDE_RETURN_IF_ERROR(send_some(moved, blocked));
  }
  return {};
}

Status PeerLink::progress_receives(bool& moved) {
  if (!candidates_.empty()) look_for_begin(moved);
  if (!connected()) return look_for_departure();
  bool blocked = false;
  for (int turn = 0; turn < kTurns && !blocked && !receives_.empty(); ++turn) {
    RONDE_RETURN_IF_ERROR(receive_some(moved, blocked));
  }
  return {};
}

Status PeerLink::send_some(bool& moved, bool& blocked) {
  Outgoing& front = sends_.front();
  const std::size_t whole = front.header.size() + front.data.size();
  if (front.sent < whole) {
    RONDE_ASSIGN_OR_RETURN(const std::size_t sent,
                           link_.stream.send(pieces(front.header, front.data, front.sent)));
    blocked = sent == 0;
    if (blocked) return {};
    moved = true;
    front.sent += sent;
  }
  if (front.sent < whole) return {};
  // A send is done once the socket has all: nobody writes the rest of it outside of a wait.
  RONDE_RETURN_IF_ERROR(link_.stream.flush());
  blocked = link_.stream.has_unsent();
  if (blocked) return {};
  if (front.counts) ++done_sends_;
  sends_.pop_front();
  return {};
}

Status PeerLink::receive_some(bool& moved, bool& blocked) {
  // The length alone first: its data is good only once it is known to fit.
  if (!announced_) RONDE_RETURN_IF_ERROR(receive_word(moved, blocked));
  return announced_ ? receive_data(moved, blocked) : Status();
}

/// The value of a word once all of it has arrived.
Result<std::optional<std::uint64_t>> PeerLink::read_word(Stream& stream, PartialWord& word,
                                                         bool& moved) {
  const iovec rest{word.bytes.data() + word.received, word.bytes.size() - word.received};
  RONDE_ASSIGN_OR_RETURN(const std::size_t got, stream.receive({&rest, 1}));
  moved = moved || got != 0;
  word.received += got;
  if (word.received < word.bytes.size()) return std::optional<std::uint64_t>();
  word.received = 0;
  return std::optional(std::bit_cast<std::uint64_t>(word.bytes));
}

Status PeerLink::receive_word(bool& moved, bool& blocked) {
  RONDE_ASSIGN_OR_RETURN(announced_, read_word(link_.stream, word_, moved));
  blocked = !announced_;
  if (blocked || *announced_ == receives_.front().data.size()) return {};
  return {Code::kInternal, fmt::format("sent {} bytes where {} were expected", *announced_,
                                       receives_.front().data.size())};
}

Status PeerLink::receive_data(bool& moved, bool& blocked) {
  Incoming& front = receives_.front();
  const auto rest = front.data.subspan(front.received);
  if (!rest.empty()) {
    const iovec piece{rest.data(), std::min(rest.size(), kTurnBytes)};
    RONDE_ASSIGN_OR_RETURN(const std::size_t got, link_.stream.receive({&piece, 1}));
    blocked = got == 0;
    if (blocked) return {};
    moved = true;
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
void PeerLink::look_for_begin(bool& moved) {
  for (auto it = candidates_.begin(); it != candidates_.end();) {
    const auto word = read_word(it->link.stream, it->word, moved);
    if (word.ok() && !word->has_value()) {
      ++it;
      continue;
    }
    if (word.ok() && **word == kBegin) {
      link_ = std::move(it->link);
      watched_ = {};
      return candidates_.clear();
    }
    it = candidates_.erase(it);
  }
}

Status PeerLink::look_for_departure() {
  if (dials_ || !watches()) return {};
  std::byte byte{};
  const iovec piece{&byte, 1};
  return watched_.stream.receive({&piece, 1}).status();
}

}  // namespace ronde::net
