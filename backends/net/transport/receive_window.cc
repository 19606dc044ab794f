#include "backends/net/transport/receive_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ronde::net {

std::uint64_t ReceiveWindow::post(std::span<std::byte> data) {
  receives_.push_back({.data = data, .missing = data.size()});
  take_early();
  return posted_++;
}

std::uint64_t ReceiveWindow::delivered_below() const noexcept {
  return early_.empty() ? received_ : std::min(received_, early_.begin()->first);
}

Status ReceiveWindow::check(const ChunkHeader& header) const {
  const bool fits = header.length <= kMaxChunkBytes && header.offset <= header.total &&
                    header.length <= header.total - header.offset;
  const bool new_message = header.kind != ChunkKind::kData || header.message >= done_;
  if (fits && new_message) return {};
  return {Code::kInternal, "sent a chunk that cannot be"};
}

Status ReceiveWindow::check_length(const ChunkHeader& header) {
  const std::size_t expected = receive_of(header).data.size();
  if (header.total == expected) return {};
  return {Code::kInternal,
          fmt::format("sent {} bytes where {} were expected", header.total, expected)};
}

Result<std::span<std::byte>> ReceiveWindow::begin(const ChunkHeader& header) {
  RONDE_RETURN_IF_ERROR(wrong_length_);
  if (has(header.sequence)) return std::span<std::byte>();
  RONDE_RETURN_IF_ERROR(check(header));
  if (!posted(header)) return std::span<std::byte>();
  RONDE_RETURN_IF_ERROR(check_length(header));
  return receive_of(header).data.subspan(header.offset, header.length);
}

Status ReceiveWindow::end(const ChunkHeader& header, std::span<const std::byte> held) {
  RONDE_RETURN_IF_ERROR(wrong_length_);
  if (has(header.sequence)) return {};
  if (header.kind == ChunkKind::kGoodbye) {
    goodbye_ = header.sequence;
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
  beyond_.insert(sequence);
  while (!beyond_.empty() && *beyond_.begin() == received_) {
    beyond_.erase(beyond_.begin());
    ++received_;
  }
}

void ReceiveWindow::deliver(const ChunkHeader& header) {
  Incoming& receive = receive_of(header);
  receive.begun = true;
  receive.missing -= std::min<std::size_t>(receive.missing, header.length);
  uncounted_[header.sequence] = header.length + kChunkCost;
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
