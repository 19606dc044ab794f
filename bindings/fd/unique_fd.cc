#include "bindings/fd/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace ronde {

void UniqueFd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_status("cannot make a pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
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

Status errno_status(const std::string& what) {
  const int error = errno;
  return {Code::kUnavailable, what + ": " + std::generic_category().message(error)};
}

}  // namespace ronde
