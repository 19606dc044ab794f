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

std::size_t word_of(int rank) noexcept { return static_cast<std::size_t>(rank) / 64; }
std::uint64_t bit_of(int rank) noexcept { return std::uint64_t{1} << (rank % 64); }

}  // namespace

HostChannel::HostChannel(std::unique_ptr<HostSegment> segment, int rank)
    : segment_(std::move(segment)),
      rank_(rank),
      process_(::getpid()),
      words_(word_of(segment_->ranks() - 1) + 1),
      inbox_(segment_->slot(rank).inbox),
      doorbell_(segment_->slot(rank).doorbell),
      watch_(*segment_, rank),
      far_reported_(static_cast<std::size_t>(segment_->job_ranks())) {
  for (int r = 0; r < segment_->ranks(); ++r) {
    peers_.push_back({RingSender(segment_->ring(rank, r), segment_->ring_data(rank, r)),
                      RingReceiver(segment_->ring(r, rank), segment_->ring_data(r, rank))});
  }
}

HostChannel::~HostChannel() { close(); }

void HostChannel::tell(int peer) noexcept {
  // Sequentially consistent: comes before kick() reads the peer's attention word.
  segment_->slot(peer).inbox.senders[word_of(rank_)].fetch_or(bit_of(rank_),
                                                              std::memory_order_seq_cst);
  unkicked_[word_of(peer)] |= bit_of(peer);
}

void HostChannel::send(int to, std::span<const std::byte> frame) {
  RingSender& sender = peers_[static_cast<std::size_t>(to)].sender;
  const bool was_blocked = sender.blocked();
  if (sender.send(frame)) tell(to);
  if (sender.blocked() == was_blocked) return;
  was_blocked ? --blocked_count_ : ++blocked_count_;
}

void HostChannel::flush_blocked() noexcept {
  for (int r = 0; r < segment_->ranks(); ++r) {
    Peer& peer = peers_[static_cast<std::size_t>(r)];
    if (peer.gone || !peer.sender.blocked()) continue;
    if (peer.sender.flush()) tell(r);
    if (!peer.sender.blocked()) --blocked_count_;
  }
}

bool HostChannel::drain(int from, const HostEvents& events) {
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  if (peer.gone) return false;
  bool delivered = false;
  bool room_made = false;
  const Status status = peer.receiver.drain(
      [&](std::span<const std::byte> frame) {
        delivered = true;
        events.on_frame(from, frame);
      },
      room_made);
  if (room_made) tell(from);
  if (!status.ok()) {
    log(LogLevel::kError, "control channel: local rank {}: {}", from, status.message());
    lose(from, Presence::kDied, events);
  }
  return delivered;
}

bool HostChannel::poll_senders(std::size_t word, const HostEvents& events) {
  if (inbox_.senders[word].load(std::memory_order_relaxed) == 0) return false;
  bool delivered = false;
  std::uint64_t bits = inbox_.senders[word].exchange(0, std::memory_order_seq_cst);
  for (; bits != 0; bits &= bits - 1) {
    const int from = static_cast<int>(word) * 64 + std::countr_zero(bits);
    if (from < segment_->ranks() && from != rank_) delivered |= drain(from, events);
  }
  return delivered;
}

Presence HostChannel::presence(int rank) const noexcept {
  return static_cast<Presence>(segment_->slot(rank).life.presence.load(std::memory_order_acquire));
}

void HostChannel::lose(int rank, Presence how, const HostEvents& events) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.sender.blocked()) --blocked_count_;
  peer.gone = true;
  events.on_gone(rank, how);
}

bool HostChannel::report_far_losses(const HostEvents& events) {
  bool delivered = false;
  for (int r = 0; r < segment_->job_ranks(); ++r) {
    const auto index = static_cast<std::size_t>(r);
    if (far_reported_[index]) continue;
    const auto lost = segment_->far_loss(r);
    if (!lost) continue;
    far_reported_[index] = true;
    events.on_far_loss(*lost);
    delivered = true;
  }
  return delivered;
}

bool HostChannel::report_news(const HostEvents& events) {
  const std::uint32_t news = inbox_.news.load(std::memory_order_seq_cst);
  if (news == seen_news_) return false;
  seen_news_ = news;
  bool delivered = report_far_losses(events);
  for (int r = 0; r < segment_->ranks(); ++r) {
    Peer& peer = peers_[static_cast<std::size_t>(r)];
    if (peer.gone || presence(r) == Presence::kPresent) continue;
    report_far_losses(events);         // once more: its reports came before its presence changed
    if (r != rank_) drain(r, events);  // all it sent came before its presence changed
    if (!peer.gone) lose(r, presence(r), events);
    delivered = true;
  }
  return delivered;
}

bool HostChannel::poll_slowly(const HostEvents& events) {
  if (closed_) return false;
  if (blocked_count_ != 0) flush_blocked();
  bool delivered = false;
  for (std::size_t w = 0; w < words_; ++w) delivered |= poll_senders(w, events);
  return report_news(events) || delivered;
}

void HostChannel::kick_word(std::size_t word) noexcept {
  for (std::uint64_t bits = std::exchange(unkicked_[word], 0); bits != 0; bits &= bits - 1) {
    const int peer = static_cast<int>(word) * 64 + std::countr_zero(bits);
    Doorbell(segment_->slot(peer).doorbell).ring();
  }
}

bool HostChannel::somebody_is_to_read() const noexcept {
  for (int r = 0; r < segment_->ranks(); ++r) {
    const Peer& peer = peers_[static_cast<std::size_t>(r)];
    if (!peer.gone && peer.sender.blocked() && presence(r) == Presence::kPresent) return true;
  }
  return false;
}

void HostChannel::flush_before_leaving() noexcept {
  const TimePoint deadline = now() + kLeaveLimit;
  while (somebody_is_to_read() && now() < deadline) {
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
    segment_->slot(rank_).life.presence.store(static_cast<std::uint32_t>(Presence::kLeft),
                                              std::memory_order_seq_cst);
    announce_news(*segment_);
  }
  watch_.stop();
}

}  // namespace ronde::net
