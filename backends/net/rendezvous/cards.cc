#include "backends/net/rendezvous/cards.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/net/rendezvous/socket.h"
#include "core/base/os/interfaces.h"

namespace ronde::net {
namespace {

Status refuse(const std::string& setting, const std::string& why) {
  return {Code::kInvalidArgument, fmt::format("RONDE_NETWORK_INTERFACE=\"{}\": {}", setting, why)};
}

const char* name_of_family(int family) { return family == AF_INET6 ? "IPv6" : "IPv4"; }

/// An address stands for itself.
Result<Endpoint> address_of(const std::string& setting, const std::string& card, int family) {
  auto chosen = numeric_host(card);
  if (!chosen.ok()) {
    RONDE_RETURN_IF_ERROR(interface_endpoint(card).status());
    const auto found = interface_address(card, family);
    if (found) chosen = *found;
  }
  if (!chosen.ok() || chosen->family() != family) {
    return refuse(setting, fmt::format("{} has no {} address, which the rendezvous has", card,
                                       name_of_family(family)));
  }
  const auto interface = interface_with(*chosen);
  if (interface && !interface->up) return refuse(setting, fmt::format("{} is down", card));
  return chosen;
}

}  // namespace

Result<std::vector<Endpoint>> card_addresses(const std::string& setting, int family) {
  const std::vector<std::string> cards = listed_interfaces(setting);
  if (cards.size() > kMostCards) {
    return refuse(
        setting, fmt::format("it lists {} interfaces; allowed: 1 to {}", cards.size(), kMostCards));
  }
  std::vector<Endpoint> addresses;
  if (cards.size() == 1) {
    RONDE_ASSIGN_OR_RETURN(const Endpoint only, interface_endpoint(setting));
    return std::vector{only};
  }
  for (const std::string& card : cards) {
    if (card.empty()) return refuse(setting, "a name is missing; allowed: eth0,eth1");
    RONDE_ASSIGN_OR_RETURN(const Endpoint address, address_of(setting, card, family));
    const auto same = std::ranges::find_if(
        addresses, [&](const Endpoint& other) { return other.same_host(address); });
    if (same != addresses.end()) {
      return refuse(setting,
                    fmt::format("{} is listed twice, as {}", card,
                                cards[static_cast<std::size_t>(same - addresses.begin())]));
    }
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace ronde::net
