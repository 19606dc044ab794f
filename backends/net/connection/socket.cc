#include "backends/net/connection/socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include "core/base/join_text.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/os/interfaces.h"

namespace ronde::net {

namespace {

constexpr int kBacklog = 1024;

}  // namespace

Result<FileDescriptor> listen_on(const Endpoint& endpoint) {
  if (endpoint.is_wildcard()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("refusing to listen on all interfaces ({})", endpoint.text()));
  }
  FileDescriptor fd(::socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (fd.valid() && endpoint.family() != AF_UNIX) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  }
  if (!fd.valid() || ::bind(fd.get(), endpoint.raw(), endpoint.length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return errno_status(fmt::format("cannot listen on {}", endpoint.text()));
  }
  return fd;
}

Result<Endpoint> source_towards(const Endpoint& endpoint) {
  const FileDescriptor fd(::socket(endpoint.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), endpoint.raw(), endpoint.length) != 0) {
    return errno_status(fmt::format("no way to {}", endpoint.text()));
  }
  RONDE_ASSIGN_OR_RETURN(const Endpoint source, local_endpoint(fd.get()));
  return source.with_port(0);
}

namespace {

/// kRankFailure where nobody listens.
Status connect_error(const std::string& what) {
  return errno_status(what, errno == ECONNREFUSED ? Code::kRankFailure : Code::kUnavailable);
}

/// The kernel chooses the port when it knows the other end, so that connections may share ports.
Status bind_source(int fd, const Endpoint& source) {
  const int yes = 1;
  ::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
  if (::bind(fd, source.raw(), source.length) == 0) return {};
  return errno_status(fmt::format("cannot connect from {}", source.host()));
}

}  // namespace

Result<FileDescriptor> start_connect(const Route& route) {
  FileDescriptor fd(::socket(route.to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno_status("cannot make a socket");
  if (route.from.length != 0) RONDE_RETURN_IF_ERROR(bind_source(fd.get(), route.from));
  if (::connect(fd.get(), route.to.raw(), route.to.length) != 0 && errno != EINPROGRESS) {
    return connect_error(fmt::format("cannot connect to {}", route.to.text()));
  }
  set_no_delay(fd.get());
  return fd;
}

Status connect_result(int fd) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error == 0) return {};
  errno = error;
  return connect_error("cannot connect");
}

void set_no_delay(int fd) {
  const int yes = 1;  // fails on Unix sockets, which have no delay to switch off
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

timespec timespec_of(Duration left) noexcept {
  const Duration most = std::chrono::hours(1);
  const std::int64_t nanoseconds = to_ns(std::clamp(left, Duration::zero(), most));
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {nanoseconds / kSecond, nanoseconds % kSecond};
}

void WaitLimit::sleep(Duration pause) const {
  const timespec timeout = timespec_of(pause);
  pollfd entry{fd(), POLLIN, 0};
  ::ppoll(&entry, 1, &timeout, nullptr);
}

bool wait_for(int fd, short events, const WaitLimit& limit) {
  std::array<pollfd, 2> entries{{{fd, events, 0}, {limit.fd(), POLLIN, 0}}};
  while (true) {
    const timespec timeout = timespec_of(limit.deadline() - now());
    const int ready = ::ppoll(entries.data(), entries.size(), &timeout, nullptr);
    if (ready > 0 && entries[0].revents != 0) return true;
    if (limit.passed()) return false;
  }
}

Status send_descriptor(int fd, int passed, const WaitLimit& limit) {
  while (send_with_file(fd, "F", passed) < 0) {
    if (errno == EINTR) continue;
    if (!would_block(errno)) return errno_status("connection lost");
    if (!wait_for(fd, POLLOUT, limit)) return {Code::kTimeout, "the peer does not read"};
  }
  return {};
}

Result<FileDescriptor> recv_descriptor(int fd, const WaitLimit& limit) {
  if (!wait_for(fd, POLLIN, limit)) return Status(Code::kTimeout, "the peer does not answer");
  FileMessage message = receive_with_file(fd, 1);
  if (message.file.valid()) return std::move(message.file);
  return Status(Code::kUnavailable, "the peer closed the connection or passed no descriptor");
}

namespace {

msghdr message_of(std::span<const iovec> pieces) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return message;
}

Status broken(int error) {
  const bool silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  return {silent ? Code::kTimeout : Code::kUnavailable,
          "broke: " + std::generic_category().message(error)};
}

}  // namespace

Result<std::size_t> send_pieces(int fd, std::span<const iovec> pieces) {
  const msghdr message = message_of(pieces);
  while (true) {
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (would_block(errno)) return std::size_t{0};
    if (errno != EINTR) return broken(errno);
  }
}

Result<Received> receive_pieces(int fd, std::span<const iovec> pieces) {
  msghdr message = message_of(pieces);
  while (true) {
    const ssize_t got = ::recvmsg(fd, &message, MSG_DONTWAIT);
    if (got > 0) return Received{static_cast<std::size_t>(got), false};
    if (got == 0) return Received{0, total_of(pieces) != 0};
    if (would_block(errno)) return Received{};
    if (errno != EINTR) return broken(errno);
  }
}

std::size_t total_of(std::span<const iovec> pieces) noexcept {
  std::size_t total = 0;
  for (const iovec& piece : pieces) total += piece.iov_len;
  return total;
}

namespace {

struct HostPorts {
  std::string host;
  std::vector<std::uint16_t> ports;
};

std::optional<std::uint16_t> parse_port(const std::string& text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

std::optional<std::vector<std::uint16_t>> parse_ports(const std::string& text) {
  std::vector<std::uint16_t> ports;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const auto port = parse_port(text.substr(start, comma - start));
    if (!port) return std::nullopt;
    ports.push_back(*port);
    start = comma + 1;
  }
  return ports;
}

std::optional<HostPorts> split(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  std::string host = text.substr(0, colon);
  const bool brackets = host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (!brackets && host.find(':') != std::string::npos) return std::nullopt;
  auto ports = parse_ports(text.substr(colon + 1));
  if (!ports) return std::nullopt;
  return HostPorts{std::move(host), std::move(*ports)};
}

/// Those with an address for traffic between hosts, and loopback ones.
std::string interface_names() {
  std::vector<std::string> names;
  for (const Interface& each : list_interfaces()) {
    const bool listed = std::ranges::find(names, each.name) != names.end();
    if (!listed && !each.address.is_link_local()) names.push_back(each.name);
  }
  return join_text(names, ", ");
}

Status malformed(const std::string& text) {
  return {Code::kInvalidArgument,
          fmt::format("\"{}\" is not an address; allowed: host:port, 10.0.0.1:4000, [fd00::1]:4000",
                      text)};
}

}  // namespace

Result<std::vector<Endpoint>> resolve(const std::string& host_and_port) {
  const auto parts = split(host_and_port);
  if (!parts) return malformed(host_and_port);
  RONDE_ASSIGN_OR_RETURN(const std::vector<Endpoint> found, resolve_host(parts->host));
  std::vector<Endpoint> all;
  for (const std::uint16_t port : parts->ports) {
    for (const Endpoint& endpoint : found) all.push_back(endpoint.with_port(port));
  }
  return all;
}

Result<Endpoint> parse_endpoint(const std::string& text) {
  if (text.starts_with('@')) return abstract_endpoint(text.substr(1));
  const auto parts = split(text);
  if (!parts || parts->ports.size() != 1) return malformed(text);
  RONDE_ASSIGN_OR_RETURN(const Endpoint found, numeric_host(parts->host));
  return found.with_port(parts->ports.front());
}

Result<Endpoint> interface_endpoint(const std::string& name_or_address) {
  if (auto numeric = numeric_host(name_or_address); numeric.ok()) return numeric;
  if (const auto found = interface_address(name_or_address)) return *found;
  return Status(Code::kInvalidArgument,
                fmt::format("RONDE_NETWORK_INTERFACE=\"{}\" is not an address nor an interface "
                            "with one; there are: {}",
                            name_or_address, interface_names()));
}

}  // namespace ronde::net
