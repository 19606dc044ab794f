#include "backends/net/transport/message_receives.h"

#include <fmt/format.h>

#include <algorithm>

namespace ronde::net {
namespace {

constexpr std::size_t kLongRead = std::size_t{64} << 10;  // more arrives while so much is copied

}  // namespace

std::uint64_t MessageReceives::post(std::span<std::byte> data) {
  queue_.push_back({data});
  return posted_++;
}

Result<MessageReceives::Step> MessageReceives::step(Stream& stream) {
  // The length alone first: its data is good only once it is known to fit.
  if (!announced_) {
    RONDE_ASSIGN_OR_RETURN(const auto word, reader_.read(stream));
    if (!word) return Step::kBlocked;
    if (*word > kLargestLength) {
      word_ = *word;
      return Step::kWord;
    }
    announced_ = word;
  }
  if (queue_.empty()) return Step::kMoved;
  if (*announced_ == queue_.front().data.size()) return receive_data(stream);
  return Status(Code::kInternal, fmt::format("sent {} bytes where {} were expected", *announced_,
                                             queue_.front().data.size()));
}

Result<MessageReceives::Step> MessageReceives::receive_data(Stream& stream) {
  Incoming& front = queue_.front();
  const auto rest = front.data.subspan(front.received);
  bool blocked = false;
  if (!rest.empty()) {
    const iovec piece{rest.data(), std::min(rest.size(), kTurnBytes)};
    RONDE_ASSIGN_OR_RETURN(const std::size_t got, stream.receive({&piece, 1}));
    blocked = got < std::min(piece.iov_len, kLongRead);  // poll() tells when more is there
    front.received += got;
  }
  if (front.received < front.data.size()) return blocked ? Step::kBlocked : Step::kMoved;
  queue_.pop_front();
  announced_.reset();
  ++done_;
  return Step::kMessage;
}

}  // namespace ronde::net
