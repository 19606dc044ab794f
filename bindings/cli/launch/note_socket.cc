#include "bindings/cli/launch/note_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace ronde {
namespace {

constexpr int kBufferBytes = 2 << 20;  // the system may allow less

/// Both ends may hold notes that grow with the number of workers.
void enlarge_buffer(int fd) {
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &kBufferBytes, sizeof(kBufferBytes)) == 0) {
    return;
  }
  (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof(kBufferBytes));
}

}  // namespace

Result<FileDescriptor> NoteSocket::open() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_status("cannot make a socket for a worker's notes");
  }
  for (const int end : ends) enlarge_buffer(end);
  socket_.reset(ends[0]);
  set_nonblocking(ends[0]);
  return FileDescriptor(ends[1]);
}

Status NoteSocket::send(std::string note) {
  if (!socket_.valid()) return {};
  unsent_.push_back(std::move(note));
  return write();
}

Status NoteSocket::write() {
  while (!unsent_.empty()) {
    const std::string& note = unsent_.front();
    const ssize_t sent = ::send(socket_.get(), note.data(), note.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) return {};
    const std::size_t bytes = note.size();
    unsent_.pop_front();
    if (sent < 0 && errno == EMSGSIZE) {
      return {Code::kInvalidArgument,
              fmt::format("a note of {} bytes is longer than net.core.wmem_max allows", bytes)};
    }
    if (sent < 0) close();  // the worker is gone
  }
  return {};
}

std::optional<FileMessage> NoteSocket::next() {
  while (socket_.valid()) {
    const ssize_t size = ::recv(socket_.get(), nullptr, 0, MSG_PEEK | MSG_TRUNC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return std::nullopt;
    if (size <= 0) break;
    return receive_with_file(socket_.get(), static_cast<std::size_t>(size));
  }
  close();
  return std::nullopt;
}

}  // namespace ronde
