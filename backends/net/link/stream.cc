#include "backends/net/link/stream.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

msghdr message_of(std::span<const iovec> pieces) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return message;
}

std::size_t total_of(std::span<const iovec> pieces) noexcept {
  std::size_t total = 0;
  for (const iovec& piece : pieces) total += piece.iov_len;
  return total;
}

Status broken(int error) {
  const bool silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  return {silent ? Code::kTimeout : Code::kUnavailable,
          "broke: " + std::generic_category().message(error)};
}

Status named(const Status& status) { return {status.code(), "the connection " + status.message()}; }

}  // namespace

Result<std::size_t> Stream::send(std::span<const iovec> pieces) {
  const msghdr message = message_of(pieces);
  while (true) {
    const ssize_t sent = ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (would_block(errno)) return std::size_t{0};
    if (errno != EINTR) return broken(errno);
  }
}

Result<std::size_t> Stream::receive(std::span<const iovec> pieces) {
  msghdr message = message_of(pieces);
  while (true) {
    const ssize_t got = ::recvmsg(fd(), &message, MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0 && total_of(pieces) == 0) return std::size_t{0};
    if (got == 0) return Status(Code::kUnavailable, "was closed");
    if (would_block(errno)) return std::size_t{0};
    if (errno != EINTR) return broken(errno);
  }
}

Status send_all(Stream& stream, std::span<const std::byte> bytes, const WaitLimit& limit) {
  // Nothing is sent where nothing is left: a peer that is done may have closed the connection.
  while (!bytes.empty() || stream.has_unsent()) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const auto sent = stream.send({&piece, 1});
    if (!sent.ok()) return named(sent.status());
    bytes = bytes.subspan(*sent);
    if (*sent != 0 || (bytes.empty() && !stream.has_unsent())) continue;
    if (!wait_for(stream.fd(), POLLOUT, limit)) return {Code::kTimeout, "the peer does not read"};
  }
  return {};
}

Status recv_all(Stream& stream, std::span<std::byte> bytes, const WaitLimit& limit) {
  while (!bytes.empty()) {
    const iovec piece{bytes.data(), bytes.size()};
    const auto got = stream.receive({&piece, 1});
    if (!got.ok()) return named(got.status());
    bytes = bytes.subspan(*got);
    if (*got != 0 || stream.has_unread()) continue;
    if (!wait_for(stream.fd(), POLLIN, limit)) return {Code::kTimeout, "the peer does not answer"};
  }
  return {};
}

Status send_message(Stream& stream, std::string_view text, const WaitLimit& limit) {
  return send_all(stream, encode_wire(text), limit);
}

Result<std::string> recv_message(Stream& stream, std::size_t most, const WaitLimit& limit) {
  std::array<std::byte, sizeof(std::uint32_t)> head{};
  RONDE_RETURN_IF_ERROR(recv_all(stream, head, limit));
  RONDE_ASSIGN_OR_RETURN(const auto length, decode_wire<std::uint32_t>(head, "length"));
  if (length > most) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("a message of {} bytes was announced; at most {} are allowed", length, most));
  }
  std::string text(length, '\0');
  RONDE_RETURN_IF_ERROR(
      recv_all(stream, std::as_writable_bytes(std::span<char>(text.data(), text.size())), limit));
  return text;
}

}  // namespace ronde::net
