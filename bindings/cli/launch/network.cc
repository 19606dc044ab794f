#include "bindings/cli/launch/network.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>

#include "bindings/fd/unique_fd.h"

namespace ronde {
namespace {

using AddressInfo = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

AddressInfo resolve(const std::string& name, const char* port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), port, &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

Interfaces interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) list = nullptr;
  return {list, &::freeifaddrs};
}

bool is_ip(const sockaddr* address) {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

std::string numeric(const sockaddr* address) {
  const socklen_t length =
      address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::array<char, NI_MAXHOST> text{};
  const int error =
      ::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? std::string(text.data()) : std::string();
}

bool is_own_address(const std::string& address) {
  const Interfaces list = interfaces();
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    if (is_ip(at->ifa_addr) && numeric(at->ifa_addr) == address) return true;
  }
  return false;
}

/// Listens nowhere: only asks whether a listener could.
bool can_bind(const addrinfo& info) {
  const UniqueFd fd(::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd.open() && ::bind(fd.get(), info.ai_addr, info.ai_addrlen) == 0;
}

}  // namespace

std::string list_interfaces() {
  std::string text;
  const Interfaces list = interfaces();
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    if (!is_ip(at->ifa_addr)) continue;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", at->ifa_name, numeric(at->ifa_addr));
  }
  return text;
}

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

bool is_this_host(const std::string& name) {
  if (name == "localhost" || name == own_host_name()) return true;
  const AddressInfo found = resolve(name, nullptr, 0);
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    if (is_own_address(numeric(at->ai_addr))) return true;
  }
  return false;
}

Result<std::string> interface_address(const std::string& interface) {
  if (is_own_address(interface)) return interface;
  const Interfaces list = interfaces();
  std::string found;
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    if (!is_ip(at->ifa_addr) || interface != at->ifa_name) continue;
    if (found.empty() || at->ifa_addr->sa_family == AF_INET) found = numeric(at->ifa_addr);
    if (at->ifa_addr->sa_family == AF_INET) break;
  }
  if (!found.empty()) return found;
  return Status(Code::kInvalidArgument,
                fmt::format("there is no network interface or own address \"{}\" on {}; there are: "
                            "{}",
                            interface, own_host_name(), list_interfaces()));
}

Result<std::string> address_towards(const std::string& name) {
  const AddressInfo found = resolve(name, "9", 0);
  if (!found) return Status(Code::kUnavailable, fmt::format("cannot resolve host \"{}\"", name));
  const UniqueFd fd(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  if (!fd.open() || ::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) {
    return errno_status(fmt::format("no route to host \"{}\"", name));
  }
  return numeric(reinterpret_cast<const sockaddr*>(&own));
}

Result<int> free_port(const std::string& address) {
  constexpr int kFirst = 20000;
  constexpr int kLast = 32000;
  std::random_device random;
  std::uniform_int_distribution<int> pick(kFirst, kLast);
  for (int attempt = 0; attempt < 200; ++attempt) {
    const int port = pick(random);
    const AddressInfo info =
        resolve(address, fmt::to_string(port).c_str(), AI_NUMERICHOST | AI_NUMERICSERV);
    if (info && can_bind(*info)) return port;
  }
  return Status(Code::kResourceExhausted,
                fmt::format("found no free TCP port on {} from {} to {}", address, kFirst, kLast));
}

std::string join_host_port(const std::string& address, int port) {
  const bool v6 = address.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

}  // namespace ronde
