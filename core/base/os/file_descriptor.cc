#include "core/base/os/file_descriptor.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

namespace ronde {
namespace {

/// Room for one descriptor.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

FileDescriptor file_of(msghdr& header) {
  const cmsghdr* const part = CMSG_FIRSTHDR(&header);
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) return {};
  int file = -1;
  std::memcpy(&file, CMSG_DATA(part), sizeof(file));
  return FileDescriptor(file);
}

}  // namespace

void FileDescriptor::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_status("cannot make a pipe");
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

FileDescriptor make_event() noexcept {
  return FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void notify_event(int fd) noexcept {
  const int saved = errno;
  const std::uint64_t one = 1;
  (void)!::write(fd, &one, sizeof(one));  // a full event is readable anyway
  errno = saved;
}

void clear_event(int fd) noexcept {
  std::uint64_t count = 0;
  (void)!::read(fd, &count, sizeof(count));
}

void set_nonblocking(int fd) noexcept { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

ReadState read_some(int fd, std::string& out) {
  std::array<char, 65536> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got > 0) {
    out.append(buffer.data(), static_cast<std::size_t>(got));
    return ReadState::kData;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return ReadState::kNothing;
  return ReadState::kEnd;
}

Status errno_status(const std::string& what, Code code) {
  const int error = errno;
  return {code, what + ": " + std::generic_category().message(error)};
}

ssize_t send_with_file(int socket, const std::string& bytes, int file) noexcept {
  iovec content{const_cast<char*>(bytes.data()), bytes.size()};
  Control control;
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  if (file >= 0) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = control.bytes.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &file, sizeof(int));
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

FileMessage receive_with_file(int socket, std::size_t most) {
  FileMessage message{std::string(most, '\0'), {}};
  iovec content{message.bytes.data(), most};
  Control control;
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = CMSG_LEN(sizeof(int));
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  message.bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (got >= 0) message.file = file_of(header);
  return message;
}

}  // namespace ronde
