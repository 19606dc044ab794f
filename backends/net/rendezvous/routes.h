// The ways from this rank to ranks of other hosts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backends/net/rendezvous/socket.h"
#include "core/base/os/endpoint.h"
#include "core/base/status.h"

namespace ronde::net {

struct Routes {
  /// Of this rank, port 0; several: a connection is bound to its card.
  std::vector<Endpoint> cards;
  /// By rank of the job, then by card: where each accepts.
  std::vector<std::vector<std::string>> addresses;

  /// The number of ways to a rank.
  [[nodiscard]] std::size_t count() const noexcept { return cards.empty() ? 1 : cards.size(); }
  /// That over this card. Errors: kInvalidArgument where the address is none.
  [[nodiscard]] Result<Route> to(int rank, std::size_t card) const {
    RONDE_ASSIGN_OR_RETURN(const Endpoint end,
                           parse_endpoint(addresses[static_cast<std::size_t>(rank)][card]));
    return cards.size() > 1 ? Route(end, cards[card]) : Route(end);
  }
};

}  // namespace ronde::net
