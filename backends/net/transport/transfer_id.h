// Ids of transfers: the direction, the peer, and the transfer's number between the two.
#pragma once

#include <cstdint>

#include "core/ports/transport.h"

namespace ronde::net {

constexpr TransferId make_transfer_id(bool incoming, int peer, std::uint64_t number) noexcept {
  return (number << 25) | (static_cast<TransferId>(peer) << 1) | (incoming ? 1 : 0);
}
constexpr bool is_incoming(TransferId id) noexcept { return (id & 1) != 0; }
constexpr int peer_of(TransferId id) noexcept { return static_cast<int>((id >> 1) & 0xffffff); }
constexpr std::uint64_t number_of(TransferId id) noexcept { return id >> 25; }

}  // namespace ronde::net
