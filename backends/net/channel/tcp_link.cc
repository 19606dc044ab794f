#include "backends/net/channel/tcp_link.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/wire_codec.h"
#include "core/ports/control_channel.h"

namespace ronde::net {
namespace {

constexpr unsigned kLostProbes = 2;

/// Comes before the bytes of each message.
struct LinkHeader {
  std::uint32_t length = 0;
  LinkMessage kind{};
  std::array<std::uint8_t, 3> reserved{};  ///< Keeps frames aligned as FlatBuffers wants them.

  static void fields(auto& wire, auto& self) { wire(self.length, self.kind, self.reserved); }
};
constexpr std::size_t kHeaderBytes = 8;
static_assert(sizeof(LinkHeader) == kHeaderBytes);

std::vector<std::byte> encode(LinkMessage kind, std::span<const std::byte> bytes) {
  WireWriter writer(kHeaderBytes + bytes.size());
  writer(LinkHeader{.length = static_cast<std::uint32_t>(bytes.size()), .kind = kind});
  writer.raw(bytes);
  return writer.take();
}

LinkHeader decode_header(std::span<const std::byte> bytes) {
  WireReader reader(bytes, "header");
  LinkHeader header;
  reader(header);
  return header;
}

Loss loss_of(const asio::error_code& error) {
  const bool unreachable = error == asio::error::timed_out ||
                           error == asio::error::host_unreachable ||
                           error == asio::error::network_unreachable;
  return unreachable ? Loss::kUnreachable : Loss::kClosed;
}

asio::ip::tcp protocol_of(int fd) {
  const auto endpoint = local_endpoint(fd);
  const bool v6 = endpoint.ok() && endpoint->family() == AF_INET6;
  return v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
}

}  // namespace

TcpLink::TcpLink(asio::io_context& io, Link link, const LinkSink& sink)
    : rank_(link.rank),
      sink_(sink),
      io_(io),
      socket_(io),
      fd_(link.socket.release()),
      input_(kReadBytes) {
  asio::error_code error;
  socket_.assign(protocol_of(fd_), fd_, error);
  socket_.non_blocking(true, error);
}

std::uint64_t TcpLink::acknowledged() noexcept {
  const TcpProgress is = tcp_progress(fd_);
  const TcpProgress was = std::exchange(progress_, is);
  // A frozen peer's host acknowledges what fits its buffer, then reports the buffer as full. Other
  // input from the peer proves nothing if only our own direction is cut.
  const bool full = is.full_us != was.full_us && is.lost_probes <= kLostProbes;
  if (!is.waiting || is.acknowledged_bytes != was.acknowledged_bytes || full) ++acknowledged_;
  return acknowledged_;
}

void TcpLink::send(LinkMessage kind, std::span<const std::byte> bytes) {
  const MutexLock lock(mutex_);
  if (closed_) return;
  queue_.push_back(encode(kind, bytes));
  if (flushing_) return;
  if (write_queue()) return;
  flushing_ = true;
  asio::post(io_, [this] { flush_later(); });
}

/// True if nothing is left. A broken connection leaves nothing either: the reading side reports it.
bool TcpLink::write_queue() {
  while (!queue_.empty()) {
    const auto left = std::span<const std::byte>(queue_.front()).subspan(front_done_);
    const ssize_t sent = ::send(fd_, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (sent < 0) {
      queue_.clear();
      front_done_ = 0;
      return true;
    }
    front_done_ += static_cast<std::size_t>(sent);
    if (front_done_ < queue_.front().size()) continue;
    queue_.pop_front();
    front_done_ = 0;
  }
  return true;
}

void TcpLink::flush_later() {
  if (ended_) return;
  socket_.async_wait(asio::socket_base::wait_write, [this](const asio::error_code& error) {
    if (!error) flush();
  });
}

void TcpLink::flush() {
  const MutexLock lock(mutex_);
  if (closed_) return;
  flushing_ = !write_queue();
  if (flushing_) flush_later();
}

void TcpLink::read_more() {
  if (ended_) return;
  const auto room = asio::buffer(input_.data() + input_used_, input_.size() - input_used_);
  socket_.async_read_some(room, [this](const asio::error_code& error, std::size_t bytes) {
    if (ended_) return;
    if (error) return end(loss_of(error));
    on_read(bytes);
  });
}

void TcpLink::on_read(std::size_t bytes) {
  ++received_;
  input_used_ += bytes;
  if (take_messages()) read_more();
}

/// False once the link has ended.
bool TcpLink::take_messages() {
  std::size_t done = 0;
  std::size_t needed = kReadBytes;
  while (input_used_ - done >= kHeaderBytes) {
    const auto rest = std::span<const std::byte>(input_).subspan(done, input_used_ - done);
    const auto [length, kind, reserved] = decode_header(rest);
    if (length > kMaxFrameBytes) return end(Loss::kClosed), false;
    if (rest.size() < kHeaderBytes + length) {
      needed = std::max(needed, kHeaderBytes + length);
      break;
    }
    if (!take_message(kind, rest.subspan(kHeaderBytes, length))) return false;
    done += kHeaderBytes + length;
  }
  std::memmove(input_.data(), input_.data() + done, input_used_ - done);
  input_used_ -= done;
  if (input_.size() < needed) input_.resize(needed);
  return true;
}

bool TcpLink::take_message(LinkMessage kind, std::span<const std::byte> bytes) {
  if (kind == LinkMessage::kGoodbye) return end(Loss::kLeft), false;
  if (kind != LinkMessage::kHeartbeat) sink_.on_message(rank_, kind, bytes);
  return true;
}

void TcpLink::end(Loss how) {
  if (ended_) return;
  ended_ = true;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    queue_.clear();
    asio::error_code error;
    socket_.close(error);
  }
  sink_.on_end(rank_, how);
}

}  // namespace ronde::net
