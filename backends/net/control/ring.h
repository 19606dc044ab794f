// A byte ring between one sender and one receiver in shared memory, and frames on top of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/base/status.h"

namespace ronde::net {

/// Positions of a ring: bytes ever written and read. Zeros are an empty ring.
struct RingHeader {
  alignas(64) std::atomic<std::uint64_t> tail;  ///< Written by the sender.
  alignas(64) std::atomic<std::uint64_t> head;  ///< Written by the receiver.
  std::atomic<std::uint32_t> sender_blocked;    ///< 1: notify the sender when there is room.
};

/// A frame is an 8-byte header (length, zero) and its bytes, padded to 8, so frames start
/// aligned. It may lie in the ring in pieces, so a frame may exceed the ring. With checksums the
/// header has 16 bytes: the length, its checksum in place of the zero, and that of the bytes.
inline constexpr std::size_t kRingAlign = 8;

/// The sending end. Threads: one at a time.
class RingSender {
 public:
  /// `data` has a power of two of bytes, and outlives this.
  RingSender(RingHeader& header, std::span<std::byte> data, bool checksums = false) noexcept
      : header_(header), data_(data), checksums_(checksums) {}

  /// Writes the frame, or queues what does not fit. True where anything was published.
  bool send(std::span<const std::byte> frame);

  /// Moves queued bytes on as far as there is room. True where anything was published.
  bool flush();

  /// True if something is queued. The receiver then notifies the sender when there is room.
  [[nodiscard]] bool blocked() const noexcept { return !queue_.empty(); }

 private:
  [[nodiscard]] std::size_t room() const noexcept;
  void write(std::size_t offset, std::span<const std::byte> bytes) noexcept;
  void publish(std::size_t bytes) noexcept;
  void write_frame(std::span<const std::byte> frame) noexcept;
  bool flush_once();

  RingHeader& header_;
  std::span<std::byte> data_;
  bool checksums_;
  std::uint64_t tail_ = 0;
  std::deque<std::vector<std::byte>> queue_;  // whole records; the first from front_done_ on
  std::size_t front_done_ = 0;
};

/// The receiving end. Threads: one at a time. Does not trust what the sender wrote.
class RingReceiver {
 public:
  using OnFrame = std::function<void(std::span<const std::byte>)>;

  RingReceiver(RingHeader& header, std::span<const std::byte> data) noexcept
      : header_(header), data_(data) {}

  /// Delivers all whole frames that are there. `room_made` is set where the sender waits for room.
  /// Errors: kInternal where the ring holds nonsense, and kCorrupted where a checksum is wrong; it
  /// must not be drained again.
  Status drain(const OnFrame& on_frame, bool& room_made);

 private:
  Status step(std::uint64_t tail, const OnFrame& on_frame, bool& progress);
  Status start_frame(std::size_t available, const OnFrame& on_frame, bool& progress);
  Status continue_frame(std::size_t available, const OnFrame& on_frame);
  Status deliver(std::span<const std::byte> frame, const OnFrame& on_frame) const;
  void copy_out(std::uint64_t position, std::span<std::byte> out) const noexcept;
  void consume(std::size_t bytes) noexcept;

  RingHeader& header_;
  std::span<const std::byte> data_;
  std::uint64_t head_ = 0;
  std::vector<std::byte> partial_;  // a frame that comes in pieces, or that wraps
  std::size_t partial_used_ = 0;    // padded bytes received so far
  std::size_t partial_size_ = 0;    // the frame's length
  bool assembling_ = false;
  std::optional<std::uint64_t> checksum_;  // of the frame
};

}  // namespace ronde::net
