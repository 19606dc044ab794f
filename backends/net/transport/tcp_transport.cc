#include "backends/net/transport/tcp_transport.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/clock.h"
#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

constexpr std::size_t kTurnBytes = std::size_t{4} << 20;  // then the other direction has its turn
constexpr int kSleepSliceMs = 50;
// When a connection breaks, the control channel soon reports which rank died. It need not be the
// peer, which may only have left because of it.
constexpr std::chrono::milliseconds kVerdictGrace{250};

// An id names direction, peer and the transfer's number between the two.
constexpr TransferId make_id(bool incoming, int peer, std::uint64_t number) noexcept {
  return (number << 25) | (static_cast<TransferId>(peer) << 1) | (incoming ? 1 : 0);
}

/// The length as the wire codec writes it, without its allocation.
std::array<std::byte, 8> encode_length(std::size_t bytes) {
  return std::bit_cast<std::array<std::byte, 8>>(std::uint64_t{bytes});
}

std::uint64_t announced_length(std::span<const std::byte> header) {
  WireReader reader(header, "length");
  std::uint64_t length = 0;
  reader(length);
  return length;
}

/// What is left of header and data after `done` bytes, at most kTurnBytes, as two pieces.
template <typename Byte>
std::array<iovec, 2> pieces(std::span<Byte> header, std::span<Byte> data, std::size_t done) {
  const auto rest = header.subspan(std::min(done, header.size()));
  const auto tail = data.subspan(done > header.size() ? done - header.size() : 0);
  const auto address = [](std::span<Byte> span) {
    return const_cast<void*>(static_cast<const void*>(span.data()));
  };
  return {iovec{address(rest), rest.size()},
          iovec{address(tail), std::min(tail.size(), kTurnBytes)}};
}

}  // namespace

Result<AbortWaker> AbortWaker::create() {
  FileDescriptor fd = make_event();
  if (!fd.valid()) return Status(Code::kResourceExhausted, "cannot make an eventfd");
  return AbortWaker(std::move(fd));
}

// A token counts as const while it is listened to: its value does not change.
AbortWaker::Listening::Listening(const AbortWaker& waker, const AbortToken& token)
    : token_(const_cast<AbortToken&>(token)),
      id_(token_.listen([fd = waker.fd()] { notify_event(fd); })) {}

TcpTransport::TcpTransport(int rank, std::vector<Stream> streams, PeerNames names, AbortWaker waker)
    : rank_(rank), names_(std::move(names)), waker_(std::move(waker)), peers_(streams.size()) {
  for (std::size_t r = 0; r < streams.size(); ++r) peers_[r].stream = std::move(streams[r]);
}

bool TcpTransport::valid_peer(int rank) const noexcept {
  return rank >= 0 && rank < size() && rank != rank_;
}

Result<TransferId> TcpTransport::send(int to, std::span<const std::byte> data) {
  RONDE_RETURN_IF_ERROR(told_);
  if (!valid_peer(to)) return Status(Code::kInvalidArgument, fmt::format("no peer {}", to));
  Peer& peer = peers_[static_cast<std::size_t>(to)];
  peer.sends.push_back({encode_length(data.size()), data});
  const TransferId id = make_id(false, to, peer.posted_sends++);
  bool moved = false;
  if (broken_.ok()) broken_ = progress_sends(to, moved);
  return id;
}

Result<TransferId> TcpTransport::recv(int from, std::span<std::byte> data) {
  RONDE_RETURN_IF_ERROR(told_);
  if (!valid_peer(from)) return Status(Code::kInvalidArgument, fmt::format("no peer {}", from));
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  peer.receives.push_back({{}, data});
  return make_id(true, from, peer.posted_receives++);
}

bool TcpTransport::done(TransferId id) const noexcept {
  const Peer& peer = peers_[(id >> 1) & 0xffffff];
  return (id & 1) != 0 ? peer.done_receives > id >> 25 : peer.done_sends > id >> 25;
}

Status TcpTransport::wait(TransferId id, const AbortToken& abort) {
  while (broken_.ok() && !done(id)) {
    if (abort.poll()) {
      broken_ = abort.status();
      break;
    }
    bool moved = false;
    broken_ = progress(moved);
    if (broken_.ok() && !moved && !done(id)) broken_ = sleep(abort);
  }
  if (done(id)) return {};
  if (told_.ok()) told_ = broken_.code() == Code::kRankFailure ? verdict(abort) : broken_;
  return told_;
}

Status TcpTransport::verdict(const AbortToken& abort) const {
  const TimePoint deadline = now() + kVerdictGrace;
  while (!abort.poll() && now() < deadline) std::this_thread::sleep_for(kVerdictGrace / 100);
  return abort.aborted() ? abort.status() : broken_;
}

Status TcpTransport::progress(bool& moved) {
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    RONDE_RETURN_IF_ERROR(progress_receives(r, moved));
    RONDE_RETURN_IF_ERROR(progress_sends(r, moved));
  }
  return {};
}

Status TcpTransport::progress_sends(int rank, bool& moved) {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  bool blocked = false;
  for (int turn = 0; turn < 4 && !blocked && !peer.sends.empty(); ++turn) {
    RONDE_RETURN_IF_ERROR(send_some(rank, moved, blocked));
  }
  return {};
}

Status TcpTransport::progress_receives(int rank, bool& moved) {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  bool blocked = false;
  for (int turn = 0; turn < 4 && !blocked && !peer.receives.empty(); ++turn) {
    RONDE_RETURN_IF_ERROR(receive_some(rank, moved, blocked));
  }
  return {};
}

Status TcpTransport::send_some(int rank, bool& moved, bool& blocked) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  Outgoing& front = peer.sends.front();
  const std::size_t size = front.header.size() + front.data.size();
  if (front.sent < size) {
    const auto parts = pieces(std::span<const std::byte>(front.header), front.data, front.sent);
    const auto sent = peer.stream.send(parts);
    if (!sent.ok()) return gone(rank, sent.status());
    blocked = *sent == 0;
    if (blocked) return {};
    moved = true;
    front.sent += *sent;
    if (front.sent < size) return {};
  }
  // A send is done once the socket has all: nobody writes the rest of it outside of a wait.
  if (const Status flushed = peer.stream.flush(); !flushed.ok()) return gone(rank, flushed);
  blocked = peer.stream.has_unsent();
  if (blocked) return {};
  peer.sends.pop_front();
  ++peer.done_sends;
  return {};
}

Status TcpTransport::receive_some(int rank, bool& moved, bool& blocked) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  Incoming& front = peer.receives.front();
  // The header alone first: what follows it is good only once the length is known to fit.
  const bool in_header = front.received < front.header.size();
  const auto parts = pieces(std::span<std::byte>(front.header), front.data, front.received);
  const iovec& part = in_header ? parts[0] : parts[1];
  if (part.iov_len != 0) {
    const auto got = peer.stream.receive({&part, 1});
    if (!got.ok()) return gone(rank, got.status());
    blocked = *got == 0;
    if (blocked) return {};
    moved = true;
    front.received += *got;
  }
  if (in_header && front.received == front.header.size()) RONDE_RETURN_IF_ERROR(check_header(rank));
  if (front.received < front.header.size() + front.data.size()) return {};
  peer.receives.pop_front();
  ++peer.done_receives;
  return {};
}

Status TcpTransport::check_header(int rank) const {
  const Incoming& front = peers_[static_cast<std::size_t>(rank)].receives.front();
  const std::uint64_t announced = announced_length(front.header);
  if (announced == front.data.size()) return {};
  return {Code::kInternal, fmt::format("rank {} of the group sent {} bytes where {} were expected",
                                       rank, announced, front.data.size())};
}

Status TcpTransport::gone(int rank, const Status& why) const {
  const FailedRank& name = names_[static_cast<std::size_t>(rank)];
  const bool refused = why.code() == Code::kInvalidArgument;
  return Status(Code::kRankFailure,
                fmt::format("rank {} (pid {} on {}) is {}: its connection {}", name.rank, name.pid,
                            name.host, refused ? "cut off" : "gone", why.message()))
      .about(name);
}

Status TcpTransport::sleep(const AbortToken& abort) {
  std::vector<pollfd> entries{{waker_.fd(), POLLIN, 0}};
  for (const Peer& peer : peers_) {
    const int events = (peer.receives.empty() ? 0 : POLLIN) | (peer.sends.empty() ? 0 : POLLOUT);
    if (events != 0) entries.push_back({peer.stream.fd(), static_cast<short>(events), 0});
  }
  const AbortWaker::Listening listening(waker_, abort);
  ::poll(entries.data(), entries.size(), kSleepSliceMs);
  return {};
}

}  // namespace ronde::net
