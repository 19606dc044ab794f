#include "bindings/cli/launch/note_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
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

/// The descriptor that came with a message.
FileDescriptor file_of(msghdr& header) {
  const cmsghdr* const part = CMSG_FIRSTHDR(&header);
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) return {};
  int file = -1;
  std::memcpy(&file, CMSG_DATA(part), sizeof(file));
  return FileDescriptor(file);
}

/// The message that waits, of this size. The kernel drops all descriptors but the first.
ReceivedNote receive(int socket, std::size_t size) {
  ReceivedNote note{std::string(size, '\0'), {}};
  iovec bytes{note.bytes.data(), size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = CMSG_LEN(sizeof(int));
  if (::recvmsg(socket, &header, MSG_CMSG_CLOEXEC) >= 0) note.file = file_of(header);
  return note;
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

std::optional<ReceivedNote> NoteSocket::next() {
  while (socket_.valid()) {
    const ssize_t size = ::recv(socket_.get(), nullptr, 0, MSG_PEEK | MSG_TRUNC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return std::nullopt;
    if (size <= 0) break;
    return receive(socket_.get(), static_cast<std::size_t>(size));
  }
  close();
  return std::nullopt;
}

}  // namespace ronde
