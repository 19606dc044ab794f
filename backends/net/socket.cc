#include "backends/net/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/base/bytes.h"

namespace ronde::net {
namespace {

constexpr int kBacklog = 1024;

Status unavailable(std::string_view what, int error) {
  return {Code::kUnavailable, fmt::format("{}: {}", what, std::generic_category().message(error))};
}

const sockaddr* raw(const Endpoint& endpoint) {
  return reinterpret_cast<const sockaddr*>(&endpoint.address);
}

std::string unix_text(const Endpoint& endpoint) {
  const auto* address = reinterpret_cast<const sockaddr_un*>(&endpoint.address);
  const std::size_t used = endpoint.length - offsetof(sockaddr_un, sun_path);
  return used == 0 ? "@" : "@" + std::string(address->sun_path + 1, used - 1);
}

}  // namespace

void Fd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

std::string Endpoint::text() const {
  if (family() == AF_UNIX) return unix_text(*this);
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
    inet_ntop(AF_INET6, &v6->sin6_addr, host.data(), host.size());
    return fmt::format("[{}]:{}", host.data(), ntohs(v6->sin6_port));
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  inet_ntop(AF_INET, &v4->sin_addr, host.data(), host.size());
  return fmt::format("{}:{}", host.data(), ntohs(v4->sin_port));
}

std::uint16_t Endpoint::port() const {
  // sin_port and sin6_port lie at the same place
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

Endpoint Endpoint::with_port(std::uint16_t port) const {
  Endpoint copy = *this;
  if (family() != AF_UNIX) reinterpret_cast<sockaddr_in*>(&copy.address)->sin_port = htons(port);
  return copy;
}

bool Endpoint::is_wildcard() const {
  if (family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&address)->sin_addr.s_addr == INADDR_ANY;
  }
  if (family() != AF_INET6) return false;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  return IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) != 0;
}

Endpoint abstract_endpoint(std::string_view name) {
  Endpoint endpoint;
  auto* address = reinterpret_cast<sockaddr_un*>(&endpoint.address);
  address->sun_family = AF_UNIX;
  const std::size_t used = std::min(name.size(), sizeof(address->sun_path) - 1);
  std::memcpy(address->sun_path + 1, name.data(), used);
  endpoint.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + used);
  return endpoint;
}

Result<Fd> listen_on(const Endpoint& endpoint) {
  if (endpoint.is_wildcard()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("refusing to listen on all interfaces ({})", endpoint.text()));
  }
  Fd fd(::socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (fd.valid() && endpoint.family() != AF_UNIX) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  }
  if (!fd.valid() || ::bind(fd.get(), raw(endpoint), endpoint.length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return unavailable(fmt::format("cannot listen on {}", endpoint.text()), errno);
  }
  return fd;
}

Result<Endpoint> local_endpoint(int fd) {
  Endpoint endpoint;
  endpoint.length = sizeof(endpoint.address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.length) != 0) {
    return unavailable("cannot read a socket's own address", errno);
  }
  return endpoint;
}

Result<Endpoint> source_towards(const Endpoint& endpoint) {
  const Fd fd(::socket(endpoint.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), raw(endpoint), endpoint.length) != 0) {
    return unavailable(fmt::format("no way to {}", endpoint.text()), errno);
  }
  RONDE_ASSIGN_OR_RETURN(const Endpoint source, local_endpoint(fd.get()));
  return source.with_port(0);
}

Result<Fd> start_connect(const Endpoint& endpoint) {
  Fd fd(::socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return unavailable("cannot make a socket", errno);
  if (::connect(fd.get(), raw(endpoint), endpoint.length) != 0 && errno != EINPROGRESS) {
    return unavailable(fmt::format("cannot connect to {}", endpoint.text()), errno);
  }
  set_no_delay(fd.get());
  return fd;
}

Status connect_result(int fd) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  return error == 0 ? Status() : unavailable("cannot connect", error);
}

void set_no_delay(int fd) {
  const int yes = 1;  // fails on Unix sockets, which have no delay to switch off
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

bool same_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

int poll_timeout_ms(TimePoint deadline) {
  if (deadline == kForever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

bool wait_for(int fd, short events, TimePoint deadline) {
  pollfd entry{fd, events, 0};
  while (true) {
    const int ready = ::poll(&entry, 1, poll_timeout_ms(deadline));
    if (ready > 0) return true;
    if (ready == 0 && now() >= deadline) return false;
  }
}

Status send_all(int fd, std::span<const std::byte> bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
    if (sent >= 0 || errno == EINTR) continue;
    if (!would_block(errno)) return unavailable("connection lost", errno);
    if (!wait_for(fd, POLLOUT, deadline)) return {Code::kTimeout, "the peer does not read"};
  }
  return {};
}

Status recv_all(int fd, std::span<std::byte> bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (got == 0) return {Code::kUnavailable, "the peer closed the connection"};
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
    if (got > 0 || errno == EINTR) continue;
    if (!would_block(errno)) return unavailable("connection lost", errno);
    if (!wait_for(fd, POLLIN, deadline)) return {Code::kTimeout, "the peer does not answer"};
  }
  return {};
}

Status send_message(int fd, std::string_view text, TimePoint deadline) {
  const std::uint32_t length = htonl(static_cast<std::uint32_t>(text.size()));
  std::string whole(reinterpret_cast<const char*>(&length), sizeof(length));
  whole += text;
  return send_all(fd, as_bytes(whole), deadline);
}

Result<std::string> recv_message(int fd, std::size_t limit, TimePoint deadline) {
  std::uint32_t length = 0;
  RONDE_RETURN_IF_ERROR(
      recv_all(fd, std::as_writable_bytes(std::span<std::uint32_t>(&length, 1)), deadline));
  length = ntohl(length);
  if (length > limit) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("a message of {} bytes was announced; at most {} are allowed", length, limit));
  }
  std::string text(length, '\0');
  RONDE_RETURN_IF_ERROR(
      recv_all(fd, std::as_writable_bytes(std::span<char>(text.data(), text.size())), deadline));
  return text;
}

Status send_descriptor(int fd, int passed, TimePoint deadline) {
  char byte = 'F';
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &passed, sizeof(int));
  while (::sendmsg(fd, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (!would_block(errno)) return unavailable("connection lost", errno);
    if (!wait_for(fd, POLLOUT, deadline)) return {Code::kTimeout, "the peer does not read"};
  }
  return {};
}

Result<Fd> recv_descriptor(int fd, TimePoint deadline) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  while ((got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EINTR) continue;
    if (!would_block(errno)) return unavailable("connection lost", errno);
    if (!wait_for(fd, POLLIN, deadline)) return Status(Code::kTimeout, "the peer does not answer");
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (got == 0 || header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Status(Code::kUnavailable, "the peer closed the connection or passed no descriptor");
  }
  int passed = -1;
  std::memcpy(&passed, CMSG_DATA(header), sizeof(int));
  return Fd(passed);
}

}  // namespace ronde::net
