#include "backends/net/control/host_channel.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <thread>
#include <utility>

#include "core/base/log.h"

namespace ronde::net {
namespace {

constexpr std::chrono::seconds kLeaveLimit{2};

std::size_t word_of(int peer) noexcept { return static_cast<std::size_t>(peer) / 64; }
std::uint64_t bit_of(int peer) noexcept { return std::uint64_t{1} << (peer % 64); }

}  // namespace

HostChannel::HostChannel(std::unique_ptr<HostSegment> segment, int rank, bool checksums)
    : segment_(std::move(segment)),
      position_(segment_->position(rank)),
      process_(::getpid()),
      words_(word_of(segment_->size() - 1) + 1),
      inbox_(segment_->slot(position_).inbox),
      doorbell_(segment_->slot(position_).doorbell),
      watch_(*segment_, position_),
      losses_(*segment_, position_) {
  for (int p = 0; p < segment_->size(); ++p) {
    peers_.push_back(
        {RingSender(segment_->ring(position_, p), segment_->ring_data(position_, p), checksums),
         RingReceiver(segment_->ring(p, position_), segment_->ring_data(p, position_))});
  }
}

HostChannel::~HostChannel() { close(); }

void HostChannel::notify(int peer) noexcept {
  // Sequentially consistent: comes before kick() reads the peer's attention word.
  segment_->slot(peer).inbox.senders[word_of(position_)].fetch_or(bit_of(position_),
                                                                  std::memory_order_seq_cst);
  unkicked_[word_of(peer)] |= bit_of(peer);
}

bool HostChannel::send(int to, std::span<const std::byte> frame) {
  const int peer = segment_->position(to);
  if (peer < 0) return false;
  RingSender& sender = peers_[static_cast<std::size_t>(peer)].sender;
  const bool was_blocked = sender.blocked();
  if (sender.send(frame)) notify(peer);
  if (sender.blocked() != was_blocked) was_blocked ? --blocked_count_ : ++blocked_count_;
  return true;
}

void HostChannel::flush_blocked() noexcept {
  for (int p = 0; p < segment_->size(); ++p) {
    Peer& peer = peers_[static_cast<std::size_t>(p)];
    if (peer.gone || !peer.sender.blocked()) continue;
    if (peer.sender.flush()) notify(p);
    if (!peer.sender.blocked()) --blocked_count_;
  }
}

bool HostChannel::drain(int from, const ChannelEvents& events) {
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  if (peer.gone) return false;
  const int rank = segment_->rank(from);
  bool delivered = false;
  bool room_made = false;
  const Status status = peer.receiver.drain(
      [&](std::span<const std::byte> frame) {
        delivered = true;
        events.on_frame(rank, frame);
      },
      room_made);
  if (room_made) notify(from);
  if (!status.ok()) {
    log(LogLevel::kError, "control channel: local rank {}: {}", from, status.message());
    const bool altered = status.code() == Code::kCorrupted;
    lose({rank, altered ? Loss::kAltered : Loss::kDied, segment_->rank(position_)}, events);
  }
  return delivered;
}

bool HostChannel::poll_senders(std::size_t word, const ChannelEvents& events) {
  if (inbox_.senders[word].load(std::memory_order_relaxed) == 0) return false;
  bool delivered = false;
  std::uint64_t bits = inbox_.senders[word].exchange(0, std::memory_order_seq_cst);
  for (; bits != 0; bits &= bits - 1) {
    const int from = static_cast<int>(word) * 64 + std::countr_zero(bits);
    if (from < segment_->size() && from != position_) delivered |= drain(from, events);
  }
  return delivered;
}

/// Delivers what the rank sent before its loss, then the loss.
void HostChannel::on_loss(const LostRank& lost, const ChannelEvents& events) {
  const int peer = segment_->position(lost.rank);
  if (peer < 0) return events.on_lost(lost);
  if (peer != position_) drain(peer, events);
  lose(lost, events);
}

/// Of a rank of this host.
void HostChannel::lose(const LostRank& lost, const ChannelEvents& events) {
  Peer& peer = peers_[static_cast<std::size_t>(segment_->position(lost.rank))];
  if (std::exchange(peer.gone, true)) return;
  if (peer.sender.blocked()) --blocked_count_;
  events.on_lost(lost);
}

bool HostChannel::poll_slowly(const ChannelEvents& events) {
  if (closed_) return false;
  if (blocked_count_ != 0) flush_blocked();
  bool delivered = false;
  for (std::size_t w = 0; w < words_; ++w) delivered |= poll_senders(w, events);
  if (!losses_.has_news()) return delivered;
  return losses_.read([&](const LostRank& lost) { on_loss(lost, events); }) || delivered;
}

void HostChannel::kick_word(std::size_t word) noexcept {
  for (std::uint64_t bits = std::exchange(unkicked_[word], 0); bits != 0; bits &= bits - 1) {
    const int peer = static_cast<int>(word) * 64 + std::countr_zero(bits);
    Doorbell(segment_->slot(peer).doorbell).ring();
  }
}

bool HostChannel::has_reader() const noexcept {
  for (int p = 0; p < segment_->size(); ++p) {
    const Peer& peer = peers_[static_cast<std::size_t>(p)];
    if (!peer.gone && peer.sender.blocked() && !segment_->loss(segment_->rank(p))) return true;
  }
  return false;
}

void HostChannel::flush_before_leaving() noexcept {
  const TimePoint deadline = now() + kLeaveLimit;
  while (has_reader() && now() < deadline) {
    flush_blocked();
    kick();
    if (blocked_count_ != 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void HostChannel::close() noexcept {
  if (closed_) return;
  closed_ = true;
  if (::getpid() == process_) {
    flush_before_leaving();
    kick();
    const int rank = segment_->rank(position_);
    watch_.report({rank, Loss::kLeft, rank});
  }
  watch_.stop();
}

}  // namespace ronde::net
