#include "bindings/exit_log/join_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "core/base/clock.h"
#include "core/base/os/endpoint.h"

namespace ronde {
namespace {

FileDescriptor datagram_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

Status JoinSocket::open() {
  const std::string name = fmt::format("ronde-joins/{}/{}", ::getpid(), to_ns(now()));
  const Endpoint endpoint = abstract_endpoint(name);
  socket_ = datagram_socket();
  if (!socket_.valid() || ::bind(socket_.get(), endpoint.raw(), endpoint.length) != 0) {
    return errno_status("cannot make a socket for ranks that join");
  }
  name_ = name;
  return {};
}

bool JoinSocket::joined() {
  char byte = 0;
  while (socket_.valid() && ::recv(socket_.get(), &byte, 1, 0) >= 0) joined_ = true;
  return joined_;
}

void tell_of_join() {
  const char* const name = std::getenv(kJoinVariable);  // NOLINT(concurrency-mt-unsafe)
  if (name == nullptr) return;
  const Endpoint endpoint = abstract_endpoint(name);
  const FileDescriptor socket = datagram_socket();
  // A full queue has others' messages, of which one is enough.
  (void)::sendto(socket.get(), "j", 1, MSG_NOSIGNAL, endpoint.raw(), endpoint.length);
}

}  // namespace ronde
