#include "backends/net/connection/stream.h"

#include <poll.h>

#include "backends/net/connection/socket.h"

namespace ronde::net {
namespace {

Status named(const Status& status) { return {status.code(), "the connection " + status.message()}; }

}  // namespace

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  close();
  socket_ = std::move(other.socket_);
  tls_ = std::move(other.tls_);
  checksums_ = other.checksums_;
  return *this;
}

void Stream::close() noexcept {
  if (tls_ && valid()) tls_->end(fd());
  socket_.reset();
}

Result<std::size_t> Stream::send(std::span<const iovec> pieces) {
  return tls_ ? tls_->send(fd(), pieces) : send_pieces(fd(), pieces);
}

Result<std::size_t> Stream::receive(std::span<const iovec> pieces) {
  if (tls_) return tls_->receive(fd(), pieces);
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

}  // namespace ronde::net
