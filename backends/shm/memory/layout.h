// The layout of a group's shared memory. Every rank computes the same layout from the number of
// ranks alone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ronde::shm {

/// Two cache lines: the adjacent-line prefetcher would couple neighbours otherwise.
inline constexpr std::size_t kLine = 128;

/// The unit of mapped memory, in bytes.
inline constexpr std::size_t kPage = 4096;

/// Steps whose data is kept at the same time; see steps.h.
inline constexpr std::uint32_t kSlots = 4;

/// First bytes of the memory.
struct alignas(kLine) Header {
  std::uint64_t nonce;  ///< Proves that the right memory was opened.
  /// The word on which ranks wait for all. The last to arrive changes it and wakes the sleepers.
  alignas(kLine) std::atomic<std::uint32_t> completions;
  std::atomic<std::uint32_t> sleepers;
};

/// A rank's progress through the group's steps. Written by its rank, but for `sleepers`.
struct alignas(kLine) Flag {
  std::atomic<std::uint32_t> arrived;                    ///< Steps arrived at so far, modulo 2^32.
  std::atomic<std::uint32_t> sleepers;                   ///< Ranks that sleep on `arrived` alone.
  std::atomic<std::uint64_t> note[kSlots];               ///< One number for the others, per slot.
  std::atomic<std::uint32_t> gone;                       ///< 1: it takes no step any more.
  alignas(kLine) std::atomic<std::uint32_t> writing_to;  ///< 1 + the rank it writes to, or 0.
  std::atomic<std::uint32_t> revoked;                    ///< Its own must not be written any more.
};

/// Why a rank takes no step any more. Written by its rank before `gone`. Texts that are longer are
/// cut, and the last byte is 0.
struct alignas(kLine) Departure {
  std::int32_t failed_rank;  ///< The rank that failed, or -1.
  std::int32_t pid;
  std::int64_t tensor;  ///< As Status::tensor, or -1.
  std::uint8_t code;    ///< A Code.
  char host[119];
  char message[888];
};

/// Wakes a rank that waits in its transport.
struct alignas(kLine) Wakeup {
  std::atomic<std::uint32_t> count;
  std::atomic<std::uint32_t> sleeping;
};

/// Positions of the byte ring from one rank to another, in bytes since the start.
struct RingControl {
  alignas(kLine) std::atomic<std::uint64_t> written;
  alignas(kLine) std::atomic<std::uint64_t> read;
};

/// Part of the memory.
struct Stretch {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Offsets into the memory of a group of `ranks`.
class Layout {
 public:
  explicit Layout(int ranks) noexcept;

  /// Bytes of one slot; each rank has kSlots of them.
  [[nodiscard]] std::size_t slot_bytes() const noexcept { return slot_bytes_; }
  /// Capacity of one ring, a power of two.
  [[nodiscard]] std::size_t ring_bytes() const noexcept { return ring_bytes_; }
  [[nodiscard]] std::size_t total_bytes() const noexcept { return total_; }

  /// The first bytes, which all ranks write.
  [[nodiscard]] std::size_t common_bytes() const noexcept { return slots_; }
  /// The part that a rank writes: its slots, and the rings from it. The common part and those of
  /// all ranks are the whole memory.
  [[nodiscard]] std::array<Stretch, 2> written_by(int rank) const noexcept;

  [[nodiscard]] Header& header(std::byte* base) const noexcept;
  [[nodiscard]] Flag& flag(std::byte* base, int rank) const noexcept;
  [[nodiscard]] Departure& departure(std::byte* base, int rank) const noexcept;
  [[nodiscard]] Wakeup& wakeup(std::byte* base, int rank) const noexcept;
  [[nodiscard]] RingControl& ring_control(std::byte* base, int from, int to) const noexcept;
  [[nodiscard]] std::byte* ring_data(std::byte* base, int from, int to) const noexcept;
  [[nodiscard]] std::byte* slot(std::byte* base, int rank, std::uint32_t step) const noexcept;
  /// The checksums of a slot's parts: by the rank that reads it, then that of the results which
  /// all others read.
  [[nodiscard]] std::uint32_t* checksums(std::byte* base, int rank,
                                         std::uint32_t step) const noexcept;

 private:
  [[nodiscard]] std::size_t pair(int from, int to) const noexcept;

  std::size_t ranks_;
  std::size_t slot_bytes_;
  std::size_t slot_stride_;
  std::size_t ring_bytes_;
  std::size_t departures_;
  std::size_t wakeups_;
  std::size_t ring_controls_;
  std::size_t slots_;
  std::size_t rings_;
  std::size_t total_;
};

}  // namespace ronde::shm
