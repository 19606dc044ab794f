#include "core/base/os/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <utility>

namespace ronde {
namespace {

socklen_t length_of(const sockaddr& address) noexcept {
  return address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

bool is_ip(const sockaddr* address) noexcept {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

}  // namespace

std::vector<Interface> list_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (!is_ip(entry->ifa_addr)) continue;
    interfaces.push_back(
        {.name = entry->ifa_name,
         .address = make_endpoint(entry->ifa_addr, length_of(*entry->ifa_addr)).with_port(0),
         .up = (entry->ifa_flags & IFF_UP) != 0,
         .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return interfaces;
}

std::optional<Endpoint> interface_address(const std::string& name) {
  std::optional<Endpoint> found;
  for (const Interface& each : list_interfaces()) {
    if (each.name != name || each.address.is_link_local()) continue;
    if (each.address.family() == AF_INET) return each.address;
    if (!found) found = each.address;
  }
  return found;
}

std::optional<Interface> interface_with(const Endpoint& address) {
  for (Interface& each : list_interfaces()) {
    if (each.address.same_host(address)) return std::move(each);
  }
  return std::nullopt;
}

int interface_megabits(const std::string& name, const std::string& folder) {
  std::ifstream file(folder + "/" + name + "/speed");
  int megabits = 0;
  return file >> megabits && megabits > 0 ? megabits : 0;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown-host";
}

}  // namespace ronde
