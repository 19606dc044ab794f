#include "backends/net/control/ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "core/base/bytes.h"
#include "core/ports/control_channel.h"

namespace ronde::net {
namespace {

constexpr std::size_t kRecordHeaderBytes = 8;
constexpr std::size_t kCheckedHeaderBytes = 16;

constexpr std::size_t padded(std::size_t bytes) noexcept {
  return (bytes + kRingAlign - 1) / kRingAlign * kRingAlign;
}

/// Never 0: a frame without a checksum has that in its place.
std::uint32_t checksum_of(std::uint32_t length) noexcept {
  return static_cast<std::uint32_t>(hash64(std::as_bytes(std::span(&length, 1)))) | 1;
}

/// The header of a record. Its bytes count; the rest of the array does not.
struct RecordHeader {
  std::array<std::byte, kCheckedHeaderBytes> room{};
  std::size_t size = kRecordHeaderBytes;

  RecordHeader(std::span<const std::byte> frame, bool checks) noexcept {
    std::array<std::uint32_t, 2> words{static_cast<std::uint32_t>(frame.size()), 0};
    if (checks) {
      size = kCheckedHeaderBytes;
      words[1] = checksum_of(words[0]);
      const std::uint64_t sum = hash64(frame);
      std::memcpy(room.data() + kRecordHeaderBytes, &sum, sizeof(sum));
    }
    std::memcpy(room.data(), words.data(), sizeof(words));
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::span(room).first(size);
  }
};

Status changed_in_the_ring(std::string_view what) {
  return {Code::kCorrupted,
          fmt::format("{} changed in shared memory: its checksum is wrong", what)};
}

}  // namespace

std::size_t RingSender::room() const noexcept {
  const std::uint64_t head = header_.head.load(std::memory_order_seq_cst);
  return data_.size() - std::min<std::uint64_t>(tail_ - head, data_.size());
}

void RingSender::write(std::size_t offset, std::span<const std::byte> bytes) noexcept {
  const std::size_t start = (tail_ + offset) & (data_.size() - 1);
  const std::size_t first = std::min(bytes.size(), data_.size() - start);
  std::memcpy(data_.data() + start, bytes.data(), first);
  std::memcpy(data_.data(), bytes.data() + first, bytes.size() - first);
}

void RingSender::publish(std::size_t bytes) noexcept {
  tail_ += bytes;
  header_.tail.store(tail_, std::memory_order_release);
}

void RingSender::write_frame(std::span<const std::byte> frame) noexcept {
  const RecordHeader header(frame, checksums_);
  write(0, header.bytes());
  if (!frame.empty()) write(header.size, frame);
  publish(header.size + padded(frame.size()));
}

bool RingSender::send(std::span<const std::byte> frame) {
  const std::size_t most = checksums_ ? kCheckedHeaderBytes : kRecordHeaderBytes;
  if (queue_.empty() && most + padded(frame.size()) <= room()) {
    write_frame(frame);
    return true;
  }
  const RecordHeader header(frame, checksums_);
  std::vector<std::byte> record(header.size + padded(frame.size()));
  const auto rest = std::ranges::copy(header.bytes(), record.begin()).out;
  std::ranges::copy(frame, rest);
  queue_.push_back(std::move(record));
  return flush();
}

bool RingSender::flush_once() {
  bool any = false;
  while (!queue_.empty()) {
    const auto left = std::span<const std::byte>(queue_.front()).subspan(front_done_);
    const std::size_t piece = std::min(left.size(), room());
    if (piece == 0) break;
    write(0, left.first(piece));
    publish(piece);
    any = true;
    front_done_ += piece;
    if (piece < left.size()) continue;
    queue_.pop_front();
    front_done_ = 0;
  }
  return any;
}

bool RingSender::flush() {
  bool any = flush_once();
  if (queue_.empty()) return any;
  // Request a notification, then look again: the receiver may have made room in between.
  header_.sender_blocked.store(1, std::memory_order_seq_cst);
  return flush_once() || any;
}

void RingReceiver::copy_out(std::uint64_t position, std::span<std::byte> out) const noexcept {
  if (out.empty()) return;
  const std::size_t start = position & (data_.size() - 1);
  const std::size_t first = std::min(out.size(), data_.size() - start);
  std::memcpy(out.data(), data_.data() + start, first);
  std::memcpy(out.data() + first, data_.data(), out.size() - first);
}

void RingReceiver::consume(std::size_t bytes) noexcept {
  head_ += bytes;
  header_.head.store(head_, std::memory_order_release);
}

/// Nobody acts on a frame that has changed.
Status RingReceiver::deliver(std::span<const std::byte> frame, const OnFrame& on_frame) const {
  if (checksum_ && hash64(frame) != *checksum_) return changed_in_the_ring("a frame");
  on_frame(frame);
  return {};
}

Status RingReceiver::continue_frame(std::size_t available, const OnFrame& on_frame) {
  const std::size_t piece = std::min(available, partial_.size() - partial_used_);
  copy_out(head_, std::span(partial_).subspan(partial_used_, piece));
  partial_used_ += piece;
  consume(piece);
  if (partial_used_ < partial_.size()) return {};
  assembling_ = false;
  return deliver(std::span<const std::byte>(partial_).first(partial_size_), on_frame);
}

Status RingReceiver::start_frame(std::size_t available, const OnFrame& on_frame, bool& progress) {
  std::array<std::uint32_t, 2> words{};
  copy_out(head_, std::as_writable_bytes(std::span(words)));
  const bool checked = words[1] != 0;
  const std::size_t header = checked ? kCheckedHeaderBytes : kRecordHeaderBytes;
  progress = available >= header;
  if (!progress) return {};
  checksum_.reset();
  if (checked) {
    if (words[1] != checksum_of(words[0])) return changed_in_the_ring("the length of a frame");
    copy_out(head_ + kRecordHeaderBytes,
             std::as_writable_bytes(std::span(&checksum_.emplace(0), 1)));
  }
  const std::size_t length = words[0];
  if (length > kMaxFrameBytes) {
    return {Code::kInternal, fmt::format("a frame of {} bytes was announced", length)};
  }
  const std::size_t whole = header + padded(length);
  const std::size_t start = (head_ + header) & (data_.size() - 1);
  if (available >= whole && start + length <= data_.size()) {
    // In place; the room is given back afterwards.
    RONDE_RETURN_IF_ERROR(deliver(data_.subspan(start, length), on_frame));
    consume(whole);
    return {};
  }
  consume(header);
  partial_.resize(padded(length));
  partial_used_ = 0;
  partial_size_ = length;
  assembling_ = true;
  RONDE_RETURN_IF_ERROR(continue_frame(available - header, on_frame));
  progress = !assembling_;
  return {};
}

Status RingReceiver::step(std::uint64_t tail, const OnFrame& on_frame, bool& progress) {
  const std::uint64_t available = tail - head_;
  if (available > data_.size()) {
    return {Code::kInternal, "a ring's positions are nonsense"};
  }
  progress = available > 0;
  if (assembling_) return continue_frame(available, on_frame);
  progress = available >= kRecordHeaderBytes;
  return progress ? start_frame(available, on_frame, progress) : Status();
}

Status RingReceiver::drain(const OnFrame& on_frame, bool& room_made) {
  const std::uint64_t tail = header_.tail.load(std::memory_order_acquire);
  const std::uint64_t head_at_start = head_;
  room_made = false;
  bool progress = tail != head_;
  while (progress && tail != head_) {
    RONDE_RETURN_IF_ERROR(step(tail, on_frame, progress));
  }
  if (tail == head_at_start) return {};
  // Sequentially consistent, as the sender's two accesses are: one of us sees the other.
  header_.head.store(head_, std::memory_order_seq_cst);
  room_made = header_.sender_blocked.load(std::memory_order_seq_cst) != 0;
  if (room_made) header_.sender_blocked.store(0, std::memory_order_relaxed);
  return {};
}

}  // namespace ronde::net
