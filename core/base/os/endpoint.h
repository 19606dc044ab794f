// Socket addresses as values: text, parts, names. Nothing here opens a socket.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// A Unix or TCP socket address.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  [[nodiscard]] int family() const noexcept { return address.ss_family; }
  /// The address as system calls take it.
  [[nodiscard]] const sockaddr* raw() const noexcept {
    return reinterpret_cast<const sockaddr*>(&address);
  }
  /// "10.0.0.1" or "::1"; empty for Unix addresses. Keeps errno, as text() does.
  [[nodiscard]] std::string host() const;
  /// "10.0.0.1:4000", "[::1]:4000" or "@name".
  [[nodiscard]] std::string text() const;
  /// The port of a TCP address.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// The same address with another port; Unix addresses have none.
  [[nodiscard]] Endpoint with_port(std::uint16_t port) const noexcept;
  /// True if it means all interfaces.
  [[nodiscard]] bool is_wildcard() const noexcept;
  /// True for ::1 and all of 127/8, though an interface lists one address of it.
  [[nodiscard]] bool is_loopback() const noexcept;
  /// True for a link-local IPv6 address.
  [[nodiscard]] bool is_link_local() const noexcept;
  /// True if both are the same IP address, with any ports.
  [[nodiscard]] bool same_host(const Endpoint& other) const noexcept;
};

/// Copies a system's address.
Endpoint make_endpoint(const sockaddr* address, socklen_t length) noexcept;

/// A name in the abstract Unix namespace: it ends with its last descriptor, also after SIGKILL.
Endpoint abstract_endpoint(std::string_view name) noexcept;

/// All addresses of a host's name or number, with port 0. Blocks (name service).
/// Errors: kUnavailable with the reason.
Result<std::vector<Endpoint>> resolve_host(const std::string& host);

/// The address that `number` writes, with port 0; no name service. Errors: kUnavailable.
Result<Endpoint> numeric_host(const std::string& number);

/// The address that a socket is bound to. Errors: kUnavailable.
Result<Endpoint> local_endpoint(int socket);

/// True if the process at the other end of a Unix socket belongs to this user.
bool is_same_user(int socket) noexcept;

/// The id of the process that has connected at the other end of a Unix socket; -1 if unknown.
pid_t peer_process(int socket) noexcept;

}  // namespace ronde
