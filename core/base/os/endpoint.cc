#include "core/base/os/endpoint.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>

#include "core/base/os/file_descriptor.h"

namespace ronde {
namespace {

// sockaddr_storage exists to be seen as the addresses of each family.
const sockaddr_in& as_v4(const Endpoint& endpoint) noexcept {
  return reinterpret_cast<const sockaddr_in&>(endpoint.address);
}
const sockaddr_in6& as_v6(const Endpoint& endpoint) noexcept {
  return reinterpret_cast<const sockaddr_in6&>(endpoint.address);
}

std::string unix_text(const Endpoint& endpoint) {
  const auto& address = reinterpret_cast<const sockaddr_un&>(endpoint.address);
  const std::size_t used = endpoint.length - offsetof(sockaddr_un, sun_path);
  return used == 0 ? "@" : "@" + std::string(address.sun_path + 1, used - 1);
}

Result<std::vector<Endpoint>> look_up(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return Status(Code::kUnavailable,
                  fmt::format("cannot resolve \"{}\": {}", host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    endpoints.push_back(make_endpoint(entry->ai_addr, entry->ai_addrlen));
  }
  return endpoints;
}

/// The process at the other end of a Unix socket.
std::optional<ucred> peer_of(int socket) noexcept {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return peer;
}

}  // namespace

std::string Endpoint::host() const {
  if (family() == AF_UNIX) return {};
  const int saved = errno;  // errors are described with addresses in them
  std::array<char, NI_MAXHOST> text{};
  const int error =
      ::getnameinfo(raw(), length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  errno = saved;
  return error == 0 ? text.data() : std::string();
}

std::string Endpoint::text() const {
  if (family() == AF_UNIX) return unix_text(*this);
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host(), port())
                              : fmt::format("{}:{}", host(), port());
}

std::uint16_t Endpoint::port() const noexcept {
  return ntohs(as_v4(*this).sin_port);  // sin6_port lies at the same place
}

Endpoint Endpoint::with_port(std::uint16_t port) const noexcept {
  Endpoint copy = *this;
  if (family() != AF_UNIX) reinterpret_cast<sockaddr_in&>(copy.address).sin_port = htons(port);
  return copy;
}

bool Endpoint::is_wildcard() const noexcept {
  if (family() == AF_INET) return as_v4(*this).sin_addr.s_addr == INADDR_ANY;
  return family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&as_v6(*this).sin6_addr) != 0;
}

bool Endpoint::is_loopback() const noexcept {
  if (family() == AF_INET) return ntohl(as_v4(*this).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&as_v6(*this).sin6_addr) != 0;
}

bool Endpoint::is_link_local() const noexcept {
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&as_v6(*this).sin6_addr) != 0;
}

bool Endpoint::same_host(const Endpoint& other) const noexcept {
  if (family() != other.family()) return false;
  if (family() == AF_INET) {
    return as_v4(*this).sin_addr.s_addr == as_v4(other).sin_addr.s_addr;
  }
  return family() == AF_INET6 &&
         IN6_ARE_ADDR_EQUAL(&as_v6(*this).sin6_addr, &as_v6(other).sin6_addr) != 0;
}

Endpoint make_endpoint(const sockaddr* address, socklen_t length) noexcept {
  Endpoint endpoint;
  endpoint.length = std::min<socklen_t>(length, sizeof(endpoint.address));
  std::memcpy(&endpoint.address, address, endpoint.length);
  return endpoint;
}

Endpoint abstract_endpoint(std::string_view name) noexcept {
  Endpoint endpoint;
  auto& address = reinterpret_cast<sockaddr_un&>(endpoint.address);
  address.sun_family = AF_UNIX;
  const std::size_t used = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), used);
  endpoint.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + used);
  return endpoint;
}

Result<std::vector<Endpoint>> resolve_host(const std::string& host) { return look_up(host, 0); }

Result<Endpoint> numeric_host(const std::string& number) {
  RONDE_ASSIGN_OR_RETURN(const std::vector<Endpoint> found, look_up(number, AI_NUMERICHOST));
  return found.front();
}

Result<Endpoint> local_endpoint(int socket) {
  Endpoint endpoint;
  endpoint.length = sizeof(endpoint.address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.length) !=
      0) {
    return errno_status("cannot read a socket's own address");
  }
  return endpoint;
}

bool is_same_user(int socket) noexcept {
  const auto peer = peer_of(socket);
  return peer && peer->uid == ::geteuid();
}

pid_t peer_process(int socket) noexcept {
  const auto peer = peer_of(socket);
  return peer ? peer->pid : -1;
}

}  // namespace ronde
