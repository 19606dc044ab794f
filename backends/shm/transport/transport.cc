#include "backends/shm/transport/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/bytes.h"

namespace ronde::shm {
namespace {

constexpr std::size_t kLength = sizeof(std::uint64_t);
constexpr std::size_t kChecksum = sizeof(std::uint64_t);
constexpr int kSend = 0;
constexpr int kRecv = 1;

/// The n-th transfer of a direction with a peer: 47 bits of n, 16 of peer, 1 of direction.
TransferId make_id(int peer, int direction, std::uint64_t n) {
  return n << 17 | static_cast<std::uint64_t>(peer) << 1 | static_cast<std::uint64_t>(direction);
}

/// Wakes a rank that sleeps in its transport.
void wake(Wakeup& wakeup) {
  if (wakeup.sleeping.load(std::memory_order_seq_cst) == 0) return;
  wakeup.count.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(wakeup.count);
}

}  // namespace

std::size_t Ring::push(const std::byte* from, std::size_t bytes) noexcept {
  const std::uint64_t written = control_->written.load(std::memory_order_relaxed);
  const std::uint64_t read = control_->read.load(std::memory_order_acquire);
  const std::size_t size = std::min(bytes, capacity_ - static_cast<std::size_t>(written - read));
  if (size == 0) return 0;
  const std::size_t at = static_cast<std::size_t>(written) & (capacity_ - 1);
  const std::size_t first = std::min(size, capacity_ - at);
  std::memcpy(data_ + at, from, first);
  std::memcpy(data_, from + first, size - first);
  control_->written.store(written + size, std::memory_order_seq_cst);
  return size;
}

std::size_t Ring::pop(std::byte* to, std::size_t bytes) noexcept {
  const std::uint64_t read = control_->read.load(std::memory_order_relaxed);
  const std::uint64_t written = control_->written.load(std::memory_order_acquire);
  const std::size_t size = std::min(bytes, static_cast<std::size_t>(written - read));
  if (size == 0) return 0;
  const std::size_t at = static_cast<std::size_t>(read) & (capacity_ - 1);
  const std::size_t first = std::min(size, capacity_ - at);
  std::memcpy(to, data_ + at, first);
  std::memcpy(to + first, data_, size - first);
  control_->read.store(read + size, std::memory_order_seq_cst);
  return size;
}

ShmTransport::ShmTransport(const Layout& layout, std::byte* base, int ranks, int rank,
                           SpinLimit spin, const AbortToken* group_abort, bool checks)
    : rank_(rank),
      checks_(checks),
      awaiter_(spin),
      group_abort_(group_abort),
      wakeup_(layout.wakeup(base, rank)) {
  const auto ring = [&](int from, int to) {
    if (from == to) return Ring(layout.ring_control(base, 0, 0), nullptr, 0);
    return Ring(layout.ring_control(base, from, to), layout.ring_data(base, from, to),
                layout.ring_bytes());
  };
  for (int r = 0; r < ranks; ++r) {
    peers_.push_back({.to = ring(rank, r),
                      .from = ring(r, rank),
                      .wakeup = &layout.wakeup(base, r),
                      .sends = {},
                      .recvs = {}});
  }
}

Status ShmTransport::check_peer(int rank) const {
  if (rank >= 0 && rank < size() && rank != rank_) return broken_;
  return Status(Code::kInvalidArgument,
                fmt::format("rank {} is no peer of rank {} in a group of {}", rank, rank_, size()));
}

Result<TransferId> ShmTransport::send(int to, std::span<const std::byte> data) {
  RONDE_RETURN_IF_ERROR(check_peer(to));
  Peer& peer = peers_[static_cast<std::size_t>(to)];
  peer.sends.push_back(
      {.data = data, .length = data.size(), .checksum = checks_ ? checksum64(data) : 0});
  progress_sends(peer);
  return make_id(to, kSend, peer.posted[kSend]++);
}

Result<TransferId> ShmTransport::recv(int from, std::span<std::byte> data) {
  RONDE_RETURN_IF_ERROR(check_peer(from));
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  peer.recvs.push_back({.data = data});
  return make_id(from, kRecv, peer.posted[kRecv]++);
}

bool ShmTransport::is_done(TransferId id) const noexcept {
  const Peer& peer = peers_[(id >> 1) & 0xffffU];
  return peer.done[id & 1U] > id >> 17;
}

Status ShmTransport::wait(TransferId id, const AbortToken& abort) {
  const Stop stop(abort, group_abort_);
  const auto settled = [&] {
    if (is_done(id)) return true;
    progress();
    return is_done(id) || !broken_.ok();
  };
  while (!awaiter_.becomes(settled, stop)) {
    if (stop.poll()) return broken_ = stop.status();
    sleep_unless_progress();
  }
  return is_done(id) ? Status() : broken_;
}

void ShmTransport::sleep_unless_progress() {
  wakeup_.sleeping.store(1, std::memory_order_seq_cst);
  const std::uint32_t count = wakeup_.count.load(std::memory_order_seq_cst);
  if (!progress()) futex_wait_for(wakeup_.count, count, kSleepSlice);
  wakeup_.sleeping.store(0, std::memory_order_relaxed);
}

bool ShmTransport::progress() {
  bool moved = false;
  for (Peer& peer : peers_) {
    if (!peer.sends.empty()) moved |= progress_sends(peer);
    if (!peer.recvs.empty()) moved |= progress_recvs(peer);
  }
  return moved;
}

bool ShmTransport::progress_sends(Peer& peer) {
  bool moved = false;
  while (!peer.sends.empty()) {
    Outgoing& message = peer.sends.front();
    if (!push(peer.to, message)) break;
    moved = true;
    if (message.moved < bytes_of(message)) continue;
    peer.sends.pop_front();
    ++peer.done[kSend];
  }
  if (moved) wake(*peer.wakeup);
  return moved;
}

bool ShmTransport::progress_recvs(Peer& peer) {
  bool moved = false;
  while (!peer.recvs.empty() && broken_.ok()) {
    Incoming& message = peer.recvs.front();
    if (!pop(peer, message)) break;
    moved = true;
    if (message.moved < bytes_of(message) || !broken_.ok()) continue;
    broken_ = judge(peer, message);
    if (!broken_.ok()) break;
    peer.recvs.pop_front();
    ++peer.done[kRecv];
  }
  if (moved) wake(*peer.wakeup);
  return moved;
}

std::size_t ShmTransport::bytes_of(const auto& message) const noexcept {
  return kLength + message.data.size() + (checks_ ? kChecksum : 0);
}

bool ShmTransport::push(Ring& ring, Outgoing& message) const {
  const std::size_t before = message.moved;
  const std::size_t data_end = kLength + message.data.size();
  const auto push_rest = [&](std::size_t begin, std::span<const std::byte> part) {
    if (message.moved < begin || message.moved >= begin + part.size()) return;
    const auto rest = part.subspan(message.moved - begin);
    message.moved += ring.push(rest.data(), rest.size());
  };
  push_rest(0, std::as_bytes(std::span(&message.length, 1)));
  push_rest(kLength, message.data);
  if (checks_) push_rest(data_end, std::as_bytes(std::span(&message.checksum, 1)));
  return message.moved > before;
}

bool ShmTransport::pop(Peer& peer, Incoming& message) {
  const std::size_t before = message.moved;
  const std::size_t data_end = kLength + message.data.size();
  const auto pop_rest = [&](std::size_t begin, std::span<std::byte> part) {
    if (message.moved < begin || message.moved >= begin + part.size()) return;
    const auto rest = part.subspan(message.moved - begin);
    message.moved += peer.from.pop(rest.data(), rest.size());
  };
  pop_rest(0, std::as_writable_bytes(std::span(&message.length, 1)));
  if (message.moved < kLength) return message.moved > before;
  if (message.length != message.data.size()) {
    broken_ = Status(Code::kMismatch,
                     fmt::format("rank {} expects a message of {} bytes, its peer sent {}", rank_,
                                 message.data.size(), message.length));
    return true;
  }
  pop_rest(kLength, message.data);
  if (checks_) pop_rest(data_end, std::as_writable_bytes(std::span(&message.checksum, 1)));
  return message.moved > before;
}

/// Compares the checksum of a message that has arrived.
Status ShmTransport::judge(const Peer& peer, const Incoming& message) const {
  if (!checks_ || checksum64(message.data) == message.checksum) return {};
  return {Code::kCorrupted,
          fmt::format("data changed in shared memory between rank {} and rank {} of the group: a "
                      "message of {} bytes has another checksum than was sent",
                      &peer - peers_.data(), rank_, message.data.size())};
}

}  // namespace ronde::shm
