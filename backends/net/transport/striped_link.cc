#include "backends/net/transport/striped_link.h"

#include <algorithm>

namespace ronde::net {
namespace {

/// Small where several cards share a message, so that none has much more to do than the others.
constexpr std::size_t kSharedChunkBytes = std::size_t{64} << 10;

}  // namespace

StripedLink::StripedLink(bool dials, std::size_t window_bytes, std::size_t cards)
    : dials_(dials), windows_(window_bytes, cards > 1 ? kSharedChunkBytes : kMaxChunkBytes) {
  for (std::size_t card = 0; card < cards; ++card) {
    lanes_.push_back(std::make_unique<BondedLink>(
        Lane{.dials = dials, .card = card, .shares = cards > 1, .windows = windows_}));
  }
}

std::uint64_t StripedLink::post_send(std::span<const std::byte> data) {
  if (!has_posted()) posted_since_ = now();
  return windows_.sends.post(data);
}

std::uint64_t StripedLink::post_receive(std::span<std::byte> data) {
  if (!has_posted()) posted_since_ = now();
  return windows_.receives.post(data);
}

bool StripedLink::may_end() const noexcept {
  if (!was_connected() || is_refused()) return true;
  // A peer that has left still waits for an acknowledgement.
  const auto is_quiet = [](const auto& lane) { return lane->is_quiet(); };
  if (windows_.receives.peer_left()) return std::ranges::all_of(lanes_, is_quiet);
  return !windows_.sends.has_unconfirmed();
}

bool StripedLink::was_connected() const noexcept {
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane->was_connected(); });
}

void StripedLink::close() noexcept {
  for (const auto& lane : lanes_) lane->close();
}

bool StripedLink::is_refused() const noexcept {
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane->is_refused(); });
}

bool StripedLink::works() const noexcept {
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane->works(); });
}

void StripedLink::look(TimePoint time) {
  for (const auto& lane : lanes_) lane->look(time);
}

bool StripedLink::has_unread() const noexcept {
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane->has_unread(); });
}

bool StripedLink::needs_looks() const noexcept {
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane->needs_looks(); });
}

Status StripedLink::progress(bool& moved, std::size_t& failed) {
  for (failed = 0; failed < lanes_.size(); ++failed) {
    RONDE_RETURN_IF_ERROR(lanes_[failed]->progress(moved));
  }
  // The caller may use a buffer again once its receive is done.
  for (const auto& lane : lanes_) lane->drop_known_chunk();
  return {};
}

Status StripedLink::progress_sends(bool& moved, std::size_t& failed) {
  for (failed = 0; failed < lanes_.size(); ++failed) {
    RONDE_RETURN_IF_ERROR(lanes_[failed]->progress_sends(moved));
  }
  return {};
}

}  // namespace ronde::net
