// Names to addresses: the part of socket.h that asks the name service and the interfaces.
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <optional>

#include "backends/net/socket.h"
#include "fmt/format.h"

namespace ronde::net {
namespace {

struct HostPort {
  std::string host;
  std::string port;
};

std::optional<HostPort> split(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) return std::nullopt;
  HostPort parts{text.substr(0, colon), text.substr(colon + 1)};
  const bool brackets = parts.host.front() == '[' && parts.host.back() == ']';
  if (brackets) parts.host = parts.host.substr(1, parts.host.size() - 2);
  if (!brackets && parts.host.find(':') != std::string::npos) return std::nullopt;
  if (parts.port.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return parts;
}

Result<std::vector<Endpoint>> look_up(const std::string& host, const char* port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), port, &hints, &found);
  if (error != 0) {
    return Status(Code::kUnavailable,
                  fmt::format("cannot resolve \"{}\": {}", host, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Endpoint endpoint;
    endpoint.length = entry->ai_addrlen;
    std::memcpy(&endpoint.address, entry->ai_addr, entry->ai_addrlen);
    endpoints.push_back(endpoint);
  }
  return endpoints;
}

Status malformed(const std::string& text) {
  return {Code::kInvalidArgument,
          fmt::format("\"{}\" is not an address; allowed: host:port, 10.0.0.1:4000, [fd00::1]:4000",
                      text)};
}

Result<std::vector<Endpoint>> split_and_look_up(const std::string& text, int flags) {
  const auto parts = split(text);
  if (!parts) return malformed(text);
  return look_up(parts->host, parts->port.c_str(), flags | AI_NUMERICSERV);
}

/// Lower is better; nothing where the address cannot be used between hosts.
std::optional<int> preference(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) return 0;
  if (address->sa_family != AF_INET6) return std::nullopt;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return std::nullopt;
  return 1;
}

}  // namespace

Result<std::vector<Endpoint>> resolve(const std::string& host_and_port) {
  return split_and_look_up(host_and_port, 0);
}

Result<Endpoint> parse_endpoint(const std::string& text) {
  if (text.starts_with('@')) return abstract_endpoint(text.substr(1));
  auto found = split_and_look_up(text, AI_NUMERICHOST);
  if (!found.ok()) return found.status();
  return found->front();
}

Result<Endpoint> interface_endpoint(const std::string& name_or_address) {
  if (auto numeric = look_up(name_or_address, "0", AI_NUMERICHOST | AI_NUMERICSERV); numeric.ok()) {
    return numeric->front();
  }
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return Status(Code::kUnavailable, "cannot list the interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::optional<int> best;
  Endpoint endpoint;
  std::string names;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const auto rank = preference(entry->ifa_addr);
    if (rank) names += fmt::format("{}{}", names.empty() ? "" : ", ", entry->ifa_name);
    if (!rank || name_or_address != entry->ifa_name || (best && *best <= *rank)) continue;
    best = rank;
    endpoint.length = *rank == 0 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&endpoint.address, entry->ifa_addr, endpoint.length);
  }
  if (best) return endpoint.with_port(0);
  return Status(Code::kInvalidArgument,
                fmt::format("RONDE_NETWORK_INTERFACE=\"{}\" is not an address nor an interface "
                            "with one; there are: {}",
                            name_or_address, names));
}

}  // namespace ronde::net
