#include "backends/net/peer/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ronde::net {

std::uint64_t SendWindow::post(std::span<const std::byte> data, FrameKind kind) {
  messages_.push_back({.data = data, .kind = kind});
  return posted_++;
}

bool SendWindow::can_cut() const noexcept {
  return !full() && (!messages_.empty() || owes_goodbye());
}

bool SendWindow::has_waiting() const noexcept { return !lost_.empty() || can_cut(); }

std::optional<OutgoingChunk> SendWindow::take(std::size_t connection, std::size_t most) {
  if (!lost_.empty()) {
    Kept& again = kept(*lost_.begin());
    lost_.erase(lost_.begin());
    again.connection = connection;
    return again.chunk;
  }
  if (!can_cut()) return std::nullopt;
  const OutgoingChunk chunk = cut(most);
  if (keeps()) kept_.push_back({.chunk = chunk, .connection = connection});
  return chunk;
}

OutgoingChunk SendWindow::cut(std::size_t most) {
  if (!messages_.empty()) return cut_message(most);
  goodbye_cut_ = true;
  return {.header = {.kind = *goodbye_, .sequence = next_++}, .bytes = {}};
}

OutgoingChunk SendWindow::cut_message(std::size_t most) {
  Posted& front = messages_.front();
  const auto rest = front.data.subspan(front.cut);
  const auto held = keeps() ? copy_of(rest) : rest.first(std::min(rest.size(), most));
  const ChunkHeader header{.kind = front.kind,
                           .length = held.size(),
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

/// A copy of as many bytes as fit one chunk.
std::span<const std::byte> SendWindow::copy_of(std::span<const std::byte> bytes) {
  const auto held = room(bytes.size());
  std::copy_n(bytes.begin(), held.size(), held.begin());
  return held;
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
  if (sequence >= first()) kept(sequence).written = true;
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

void SendWindow::lose(std::size_t connection) {
  for (std::uint64_t each = std::max(first(), received_by_peer_); each < next_; ++each) {
    if (kept(each).connection == connection) lost_.insert(each);
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

std::uint64_t ReceiveWindow::post(std::span<std::byte> data) {
  receives_.push_back({.data = data, .missing = data.size()});
  take_early();
  return posted_++;
}

std::uint64_t ReceiveWindow::delivered_below() const noexcept {
  return early_.empty() ? received_ : std::min(received_, early_.begin()->first);
}

Status ReceiveWindow::check(const ChunkHeader& header) const {
  const bool fits = header.offset <= header.total && header.length <= header.total - header.offset;
  const bool new_message = !has_message(header.kind) || header.message >= done_;
  const bool in_turn = keeps() || header.sequence == received_;
  if (fits && new_message && in_turn) return {};
  return {Code::kInternal, "sent a chunk that cannot be"};
}

Status ReceiveWindow::check_length(const ChunkHeader& header) {
  const std::size_t expected = receive_of(header).data.size();
  if (header.total == expected) return {};
  return {Code::kInternal,
          fmt::format("sent {} bytes where {} were expected", header.total, expected)};
}

/// Without receives, messages come in order.
Status ReceiveWindow::make_receive(const ChunkHeader& header) {
  if (header.message != done_ + receives_.size() || header.total > unposted_) {
    return {Code::kInternal, "sent a message that cannot be"};
  }
  own_.push_back({header.kind, std::vector<std::byte>(header.total)});
  receives_.push_back({.data = own_.back().bytes, .missing = header.total});
  return {};
}

std::optional<ReceiveWindow::Message> ReceiveWindow::take() {
  if (own_.size() <= receives_.size()) return std::nullopt;
  Message whole = std::move(own_.front());
  own_.pop_front();
  return whole;
}

Result<std::span<std::byte>> ReceiveWindow::begin(const ChunkHeader& header) {
  RONDE_RETURN_IF_ERROR(wrong_length_);
  if (keeps() && has(header.sequence)) return std::span<std::byte>();
  RONDE_RETURN_IF_ERROR(check(header));
  if (unposted_ != 0 && has_message(header.kind) && !posted(header)) {
    RONDE_RETURN_IF_ERROR(make_receive(header));
  }
  if (!posted(header)) return std::span<std::byte>();
  RONDE_RETURN_IF_ERROR(check_length(header));
  return receive_of(header).data.subspan(header.offset, header.length);
}

Status ReceiveWindow::end(const ChunkHeader& header, std::span<const std::byte> held) {
  RONDE_RETURN_IF_ERROR(wrong_length_);
  if (has(header.sequence)) return {};
  if (is_goodbye(header.kind)) {
    goodbye_ = header.sequence;
    goodbye_kind_ = header.kind;
  } else if (!posted(header)) {
    RONDE_RETURN_IF_ERROR(keep(header, held));
  } else {
    RONDE_RETURN_IF_ERROR(check_length(header));
    const auto place = receive_of(header).data.subspan(header.offset, header.length);
    if (!held.empty()) std::copy(held.begin(), held.end(), place.begin());
    deliver(header);
  }
  note(header.sequence);
  count_delivered();
  return {};
}

Status ReceiveWindow::keep(const ChunkHeader& header, std::span<const std::byte> bytes) {
  early_bytes_ += bytes.size() + kChunkCost;
  if (early_bytes_ > 2 * capacity_) {
    return {Code::kInternal, fmt::format("sent more than the {} bytes of its window", capacity_)};
  }
  early_[header.sequence] = {header, {bytes.begin(), bytes.end()}};
  return {};
}

void ReceiveWindow::note(std::uint64_t sequence) {
  if (sequence != received_) beyond_.insert(sequence);
  if (sequence == received_) ++received_;
  while (!beyond_.empty() && *beyond_.begin() == received_) {
    beyond_.erase(beyond_.begin());
    ++received_;
  }
}

void ReceiveWindow::deliver(const ChunkHeader& header) {
  Incoming& receive = receive_of(header);
  receive.begun = true;
  receive.missing -= std::min<std::size_t>(receive.missing, header.length);
  if (keeps()) uncounted_[header.sequence] = header.length + kChunkCost;
  while (!receives_.empty() && receives_.front().begun && receives_.front().missing == 0) {
    receives_.pop_front();
    ++done_;
  }
}

/// Gives early chunks to the receive that was just posted, which is the first they can belong to.
void ReceiveWindow::take_early() {
  while (!early_.empty() && posted(early_.begin()->second.header) && wrong_length_.ok()) {
    const Early early = std::move(early_.extract(early_.begin()).mapped());
    early_bytes_ -= early.bytes.size() + kChunkCost;
    wrong_length_ = check_length(early.header);
    if (!wrong_length_.ok()) return;
    std::copy(
        early.bytes.begin(), early.bytes.end(),
        receive_of(early.header).data.begin() + static_cast<std::ptrdiff_t>(early.header.offset));
    deliver(early.header);
  }
  count_delivered();
}

/// The peer's window gets free in order. So a chunk counts once all before it are delivered.
void ReceiveWindow::count_delivered() {
  while (!uncounted_.empty() && uncounted_.begin()->first < delivered_below()) {
    delivered_cost_ += uncounted_.begin()->second;
    uncounted_.erase(uncounted_.begin());
  }
}

}  // namespace ronde::net
