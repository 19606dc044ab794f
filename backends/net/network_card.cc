#include "backends/net/network_card.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>
#include <fstream>
#include <memory>

namespace ronde::net {
namespace {

/// Whether both are the same IP address, whatever their ports.
bool same_host_address(const Endpoint& endpoint, const sockaddr* other) {
  if (other == nullptr || other->sa_family != endpoint.family()) return false;
  if (endpoint.family() == AF_INET) {
    const auto* mine = reinterpret_cast<const sockaddr_in*>(&endpoint.address);
    const auto* theirs = reinterpret_cast<const sockaddr_in*>(other);
    return mine->sin_addr.s_addr == theirs->sin_addr.s_addr;
  }
  if (endpoint.family() != AF_INET6) return false;
  const auto* mine = reinterpret_cast<const sockaddr_in6*>(&endpoint.address);
  const auto* theirs = reinterpret_cast<const sockaddr_in6*>(other);
  return std::memcmp(&mine->sin6_addr, &theirs->sin6_addr, sizeof(in6_addr)) == 0;
}

/// Virtual cards tell nothing, or -1.
int megabits_of(const std::string& name, const std::string& folder) {
  std::ifstream file(fmt::format("{}/{}/speed", folder, name));
  int megabits = 0;
  return file >> megabits && megabits > 0 ? megabits : 0;
}

}  // namespace

NetworkCard card_of(const Endpoint& local, const std::string& folder) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (!same_host_address(local, entry->ifa_addr)) continue;
    return {.name = entry->ifa_name, .megabits = megabits_of(entry->ifa_name, folder)};
  }
  return {};
}

}  // namespace ronde::net
