#include "backends/net/link/stream.h"

#include <fmt/format.h>
#include <poll.h>

#include <array>

#include "backends/net/link/socket_io.h"
#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

Status named(const Status& status) { return {status.code(), "the connection " + status.message()}; }

}  // namespace

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  close();
  socket_ = std::move(other.socket_);
  sealed_ = std::move(other.sealed_);
  return *this;
}

void Stream::close() noexcept {
  if (sealed_ && valid()) sealed_->end(fd());
  socket_.reset();
}

Result<std::size_t> Stream::send(std::span<const iovec> pieces) {
  return sealed_ ? sealed_->send(fd(), pieces) : send_pieces(fd(), pieces);
}

Result<std::size_t> Stream::receive(std::span<const iovec> pieces) {
  if (sealed_) return sealed_->receive(fd(), pieces);
  RONDE_ASSIGN_OR_RETURN(const Received got, receive_pieces(fd(), pieces));
  if (got.ended) return Status(Code::kUnavailable, "was closed");
  return got.bytes;
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
