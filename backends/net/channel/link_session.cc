#include "backends/net/channel/link_session.h"

namespace ronde::net {

void LinkSession::send(LinkMessage kind, std::span<const std::byte> bytes) {
  if (over_) return;
  const std::uint64_t number = first_ + kept_.size();
  if (link_ != nullptr) link_->send({kind, number}, bytes);
  if (heals_ || link_ == nullptr) {
    kept_.push_back({kind, {bytes.begin(), bytes.end()}});
  } else {
    ++first_;
  }
}

void LinkSession::use(TcpLink& link, std::uint64_t received) {
  fresh_ = false;
  link_ = &link;
  if (!confirm(received)) return;
  std::uint64_t number = first_;
  for (const Message& message : kept_) link.send({message.kind, number++}, message.bytes);
  if (!heals_) (void)confirm(number);
}

void LinkSession::drop(const TcpLink& link) noexcept {
  if (link_ != &link) return;
  link_ = nullptr;
  over_ = over_ || !heals_;
}

void LinkSession::give_up() noexcept {
  over_ = true;
  kept_.clear();
}

bool LinkSession::confirm(std::uint64_t received) noexcept {
  if (over_) return true;
  if (received > first_ + kept_.size()) return false;
  while (first_ < received) {
    kept_.pop_front();
    ++first_;
  }
  return true;
}

bool LinkSession::take(std::uint64_t number, std::size_t bytes) noexcept {
  if (number != received_) return false;
  ++received_;
  ++owed_messages_;
  owed_bytes_ += bytes;
  return true;
}

}  // namespace ronde::net
