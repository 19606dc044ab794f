// The network cards of this host that carry data between hosts, as the user chooses them.
#pragma once

#include <string>
#include <vector>

#include "core/base/os/endpoint.h"
#include "core/base/status.h"

namespace ronde::net {

/// Most cards that a job uses.
inline constexpr std::size_t kMostCards = 8;

/// The addresses, with port 0, of the interfaces that `setting` lists: RONDE_NETWORK_INTERFACE,
/// "eth0,eth1". The first one's also serves the rendezvous and the control channel. Where there
/// are several, each must be up and have an address of `family`, that of the rendezvous.
/// Errors: kInvalidArgument naming the one that is wrong.
Result<std::vector<Endpoint>> card_addresses(const std::string& setting, int family);

}  // namespace ronde::net
