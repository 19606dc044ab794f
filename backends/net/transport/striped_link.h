// The transfers with one peer, over one network card or several at once.
//
// Messages are cut into chunks. Each card has a connection, a lane, that takes the next chunk when
// its socket has room. So a card carries the share that it can, and the shares follow when it
// changes. What a lane that breaks or falls silent has not delivered goes over the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/net/transport/bonded_link.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// Moves the transfers of one pair of ranks. No call blocks. Threads: one at a time.
class StripedLink {
 public:
  /// `dials`: this rank makes the connections. `window_bytes`: what is kept to be sent again.
  StripedLink(bool dials, std::size_t window_bytes, std::size_t cards);

  [[nodiscard]] bool dials() const noexcept { return dials_; }
  [[nodiscard]] bool has_posted() const noexcept { return windows_.has_posted(); }
  /// Each returns the number of the transfer: the first is 0. They end in this order.
  std::uint64_t post_send(std::span<const std::byte> data);
  std::uint64_t post_receive(std::span<std::byte> data);
  [[nodiscard]] bool sent(std::uint64_t number) const noexcept {
    return windows_.sends.sent(number);
  }
  [[nodiscard]] bool received(std::uint64_t number) const noexcept {
    return windows_.receives.received(number);
  }
  /// The time at which the first of the transfers that are not done was posted.
  [[nodiscard]] TimePoint posted_since() const noexcept { return posted_since_; }

  /// Informs the peer, after all that was posted, that this rank leaves.
  void post_goodbye() { windows_.sends.post_goodbye(); }
  /// True once the peer lacks nothing that this rank sent, or has no use for it.
  [[nodiscard]] bool may_end() const noexcept;
  /// Closes all connections.
  void close() noexcept;
  /// True once the peer has left the group, with all its data here or by its refusals.
  [[nodiscard]] bool peer_left() const noexcept {
    return windows_.receives.peer_left() || is_refused();
  }
  /// True once a connection has carried chunks.
  [[nodiscard]] bool was_connected() const noexcept;

  /// The lanes, by card.
  [[nodiscard]] std::size_t cards() const noexcept { return lanes_.size(); }
  [[nodiscard]] BondedLink& lane(std::size_t card) noexcept { return *lanes_[card]; }
  [[nodiscard]] const BondedLink& lane(std::size_t card) const noexcept { return *lanes_[card]; }
  /// True where a lane carries chunks.
  [[nodiscard]] bool works() const noexcept;

  /// Moves what the connections take and give now. Errors: as BondedLink::progress, and then
  /// `failed` is the card.
  Status progress(bool& moved, std::size_t& failed);
  /// The sending half of it alone.
  Status progress_sends(bool& moved, std::size_t& failed);

  /// As those of BondedLink, for all lanes.
  void look(TimePoint time);
  [[nodiscard]] bool has_unread() const noexcept;
  [[nodiscard]] bool needs_looks() const noexcept;
  template <typename Add>
  void for_each_wait(Add add) const {
    for (const auto& lane : lanes_) lane->for_each_wait(add);
  }

 private:
  [[nodiscard]] bool is_refused() const noexcept;

  const bool dials_;
  PeerWindows windows_;
  std::vector<std::unique_ptr<BondedLink>> lanes_;
  TimePoint posted_since_ = kForever;
};

}  // namespace ronde::net
