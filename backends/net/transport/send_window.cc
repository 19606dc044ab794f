#include "backends/net/transport/send_window.h"

#include <algorithm>
#include <utility>

namespace ronde::net {

std::uint64_t SendWindow::post(std::span<const std::byte> data) {
  messages_.push_back({.data = data});
  return posted_++;
}

bool SendWindow::can_cut() const noexcept {
  return !full() && (!messages_.empty() || owes_goodbye());
}

bool SendWindow::has_waiting() const noexcept { return !lost_.empty() || can_cut(); }

std::optional<OutgoingChunk> SendWindow::take(std::size_t lane) {
  if (!lost_.empty()) {
    Kept& again = kept(*lost_.begin());
    lost_.erase(lost_.begin());
    again.lane = lane;
    return again.chunk;
  }
  if (!can_cut()) return std::nullopt;
  kept_.push_back({.chunk = cut(), .lane = lane});
  return kept_.back().chunk;
}

OutgoingChunk SendWindow::cut() {
  if (!messages_.empty()) return cut_message();
  goodbye_cut_ = true;
  return {.header = {.kind = ChunkKind::kGoodbye, .sequence = next_++}, .bytes = {}};
}

OutgoingChunk SendWindow::cut_message() {
  Posted& front = messages_.front();
  const auto rest = front.data.subspan(front.cut);
  const auto held = room(rest.size());
  std::copy_n(rest.begin(), held.size(), held.begin());
  const ChunkHeader header{.kind = ChunkKind::kData,
                           .length = static_cast<std::uint32_t>(held.size()),
                           .sequence = next_++,
                           .message = cut_,
                           .offset = front.cut,
                           .total = front.data.size()};
  front.cut += held.size();
  if (front.cut == front.data.size()) {
    ends_.push_back(header.sequence);
    messages_.pop_front();
    ++cut_;
  }
  return {.header = header, .bytes = held};
}

/// Free bytes in one piece, those of a chunk at most.
std::span<std::byte> SendWindow::room(std::size_t most) {
  if (most == 0) return {};
  if (ring_ == nullptr) ring_ = std::make_unique_for_overwrite<std::byte[]>(capacity_);
  if (used_ == 0 || end_ == capacity_) end_ = 0;
  const std::size_t in_one_piece = std::min(capacity_ - used_, capacity_ - end_);
  const std::span<std::byte> free(ring_.get() + end_, std::min({most, in_one_piece, chunk_bytes_}));
  end_ += free.size();
  used_ += free.size();
  return free;
}

void SendWindow::drop_front() {
  used_ -= kept_.front().chunk.bytes.size();
  kept_.pop_front();
}

void SendWindow::written(std::uint64_t sequence) {
  if (sequence < first()) return;
  kept(sequence).written = true;
  note_sent();
}

void SendWindow::note_sent() {
  written_ = std::max(written_, first());
  while (written_ < next_ && kept(written_).written) ++written_;
  while (!ends_.empty() && ends_.front() < written_) {
    ends_.pop_front();
    ++sent_;
  }
}

void SendWindow::lose(std::size_t lane) {
  for (std::uint64_t each = std::max(first(), received_by_peer_); each < next_; ++each) {
    if (kept(each).lane == lane) lost_.insert(each);
  }
}

bool SendWindow::acknowledge(std::uint64_t received, std::uint64_t delivered) {
  if (received > next_ || delivered > received) return false;
  received_by_peer_ = std::max(received_by_peer_, received);
  lost_.erase(lost_.begin(), lost_.lower_bound(received_by_peer_));
  while (!kept_.empty() && first() < delivered) drop_front();
  note_sent();
  return true;
}

}  // namespace ronde::net
