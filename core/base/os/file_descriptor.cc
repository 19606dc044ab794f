#include "core/base/os/file_descriptor.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace ronde {

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

}  // namespace ronde
