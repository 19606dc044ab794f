#include "backends/net/rendezvous/socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

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

int poll_timeout_ms(TimePoint deadline) {
  if (deadline == kForever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

void WaitLimit::sleep(Duration pause) const {
  const auto nanoseconds = std::chrono::nanoseconds(std::max(pause, Duration::zero())).count();
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec timeout{static_cast<time_t>(nanoseconds / kSecond),
                         static_cast<long>(nanoseconds % kSecond)};
  pollfd entry{fd(), POLLIN, 0};
  ::ppoll(&entry, 1, &timeout, nullptr);
}

bool wait_for(int fd, short events, const WaitLimit& limit) {
  std::array<pollfd, 2> entries{{{fd, events, 0}, {limit.fd(), POLLIN, 0}}};
  while (true) {
    const int ready = ::poll(entries.data(), entries.size(), poll_timeout_ms(limit.deadline()));
    if (ready > 0 && entries[0].revents != 0) return true;
    if (limit.passed()) return false;
  }
}

Status send_descriptor(int fd, int passed, const WaitLimit& limit) {
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
    if (!would_block(errno)) return errno_status("connection lost");
    if (!wait_for(fd, POLLOUT, limit)) return {Code::kTimeout, "the peer does not read"};
  }
  return {};
}

Result<FileDescriptor> recv_descriptor(int fd, const WaitLimit& limit) {
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
    if (!would_block(errno)) return errno_status("connection lost");
    if (!wait_for(fd, POLLIN, limit)) return Status(Code::kTimeout, "the peer does not answer");
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (got == 0 || header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Status(Code::kUnavailable, "the peer closed the connection or passed no descriptor");
  }
  int passed = -1;
  std::memcpy(&passed, CMSG_DATA(header), sizeof(int));
  return FileDescriptor(passed);
}

}  // namespace ronde::net
