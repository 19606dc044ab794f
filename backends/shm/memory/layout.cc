#include "backends/shm/memory/layout.h"

#include <algorithm>
#include <bit>

namespace ronde::shm {
namespace {

constexpr std::size_t kSlotBytes = std::size_t{512} << 10;
constexpr std::size_t kSlotBudget = std::size_t{64} << 20;
constexpr std::size_t kRingBudget = std::size_t{8} << 20;
constexpr std::size_t kSmallestRing = std::size_t{1} << 10;
constexpr std::size_t kLargestRing = std::size_t{256} << 10;

std::size_t page_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// A multiple of four lines. So strides are still odd numbers of lines.
std::size_t checksum_bytes(std::size_t ranks) {
  const std::size_t bytes = (ranks + 1) * sizeof(std::uint32_t);
  return (bytes + 4 * kLine - 1) / (4 * kLine) * (4 * kLine);
}

template <typename T>
T& at(std::byte* base, std::size_t offset) {
  return *reinterpret_cast<T*>(base + offset);
}

}  // namespace

Layout::Layout(int ranks) noexcept
    : ranks_(static_cast<std::size_t>(ranks)),
      slot_bytes_(std::min(kSlotBytes, kSlotBudget / kSlots / ranks_ / kPage * kPage)),
      // Not a multiple of the page: equal offsets in different slots would alias in the L1 cache.
      slot_stride_(slot_bytes_ + 5 * kLine + checksum_bytes(ranks_)),
      ring_bytes_(
          std::clamp(std::bit_floor(kRingBudget / (ranks_ * ranks_)), kSmallestRing, kLargestRing)),
      departures_(sizeof(Header) + ranks_ * sizeof(Flag)),
      wakeups_(departures_ + ranks_ * sizeof(Departure)),
      ring_controls_(wakeups_ + ranks_ * sizeof(Wakeup)),
      slots_(page_up(ring_controls_ + ranks_ * ranks_ * sizeof(RingControl))),
      rings_(page_up(slots_ + ranks_ * kSlots * slot_stride_)),
      total_(page_up(rings_ + ranks_ * (ranks_ - 1) * ring_bytes_)) {}

std::array<Stretch, 2> Layout::written_by(int rank) const noexcept {
  const auto place = static_cast<std::size_t>(rank);
  const std::size_t slots = kSlots * slot_stride_;
  const std::size_t rings = (ranks_ - 1) * ring_bytes_;
  return {Stretch{slots_ + place * slots, slots}, Stretch{rings_ + place * rings, rings}};
}

std::size_t Layout::pair(int from, int to) const noexcept {
  const auto column = static_cast<std::size_t>(to - (to > from ? 1 : 0));
  return static_cast<std::size_t>(from) * (ranks_ - 1) + column;
}

Header& Layout::header(std::byte* base) const noexcept { return at<Header>(base, 0); }

Flag& Layout::flag(std::byte* base, int rank) const noexcept {
  return at<Flag>(base, sizeof(Header) + static_cast<std::size_t>(rank) * sizeof(Flag));
}

Departure& Layout::departure(std::byte* base, int rank) const noexcept {
  return at<Departure>(base, departures_ + static_cast<std::size_t>(rank) * sizeof(Departure));
}

Wakeup& Layout::wakeup(std::byte* base, int rank) const noexcept {
  return at<Wakeup>(base, wakeups_ + static_cast<std::size_t>(rank) * sizeof(Wakeup));
}

RingControl& Layout::ring_control(std::byte* base, int from, int to) const noexcept {
  return at<RingControl>(base, ring_controls_ + pair(from, to) * sizeof(RingControl));
}

std::byte* Layout::ring_data(std::byte* base, int from, int to) const noexcept {
  return base + rings_ + pair(from, to) * ring_bytes_;
}

std::byte* Layout::slot(std::byte* base, int rank, std::uint32_t step) const noexcept {
  const std::size_t index = static_cast<std::size_t>(rank) * kSlots + step % kSlots;
  return base + slots_ + index * slot_stride_;
}

std::uint32_t* Layout::checksums(std::byte* base, int rank, std::uint32_t step) const noexcept {
  return &at<std::uint32_t>(slot(base, rank, step), slot_bytes_);
}

}  // namespace ronde::shm
