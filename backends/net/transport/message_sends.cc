#include "backends/net/transport/message_sends.h"

#include <algorithm>
#include <array>

namespace ronde::net {
namespace {

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

std::uint64_t MessageSends::post(std::span<const std::byte> data) {
  queue_.push_back({peer_word(data.size()), data});
  return posted_++;
}

void MessageSends::post_word(std::uint64_t word, bool closes) {
  queue_.push_back({peer_word(word), {}, /*counts=*/false, closes});
}

void MessageSends::begin_connection() {
  queue_.push_front({peer_word(kBegin), {}, /*counts=*/false});
}

void MessageSends::drop_words() {
  std::erase_if(queue_, [](const Outgoing& each) { return !each.counts; });
}

Result<MessageSends::Step> MessageSends::step(Stream& stream) {
  Outgoing& front = queue_.front();
  const std::size_t whole = front.header.size() + front.data.size();
  if (front.sent < whole) {
    RONDE_ASSIGN_OR_RETURN(const std::size_t sent,
                           stream.send(pieces(front.header, front.data, front.sent)));
    if (sent == 0) return Step::kBlocked;
    front.sent += sent;
  }
  if (front.sent < whole) return Step::kMoved;
  // A send is done once the socket has all: nobody writes the rest of it outside of a wait.
  RONDE_RETURN_IF_ERROR(stream.flush());
  if (stream.has_unsent()) return Step::kBlocked;
  if (front.counts) ++done_;
  const bool closes = front.closes;
  queue_.pop_front();
  return closes ? Step::kClosed : Step::kMoved;
}

}  // namespace ronde::net
