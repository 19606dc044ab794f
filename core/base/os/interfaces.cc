#include "core/base/os/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
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

std::optional<Endpoint> interface_address(const std::string& name, int family) {
  std::optional<Endpoint> found;
  for (const Interface& each : list_interfaces()) {
    if (each.name != name || each.address.is_link_local()) continue;
    if (family != AF_UNSPEC && each.address.family() != family) continue;
    if (each.address.family() == AF_INET) return each.address;
    if (!found) found = each.address;
  }
  return found;
}

std::vector<std::string> listed_interfaces(const std::string& setting) {
  std::vector<std::string> names;
  for (std::size_t start = 0; start <= setting.size();) {
    const std::size_t comma = std::min(setting.find(',', start), setting.size());
    names.push_back(setting.substr(start, comma - start));
    start = comma + 1;
  }
  return names;
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
