#include "backends/net/link/socket_io.h"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "backends/net/rendezvous/socket.h"

namespace ronde::net {
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

}  // namespace ronde::net
