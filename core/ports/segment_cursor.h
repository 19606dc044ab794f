// Walks the segments of a Work as one stream of bytes, for data planes that stage them.
#pragma once

#include <cstddef>
#include <span>

#include "core/ports/backend.h"

namespace ronde {

/// Gathers the inputs, and scatters the outputs, of consecutive segments; the two positions move
/// independently. A null `in` reads as zeros, a null `out` swallows what is written.
/// Threads: one at a time.
class SegmentCursor {
 public:
  explicit SegmentCursor(std::span<const Segment> segments) noexcept : segments_(segments) {}

  /// Fills `to` with the next input bytes; the caller asks for no more than are left.
  void read(std::span<std::byte> to) noexcept;

  /// Writes `from` to the next output bytes; the caller gives no more than there is room for.
  void write(std::span<const std::byte> from) noexcept;

 private:
  struct Position {
    std::size_t segment = 0;
    std::size_t offset = 0;
  };

  /// The rest of the segment at `position`, at most `limit` bytes; steps over finished segments.
  std::size_t available(Position& position, std::size_t limit) const noexcept;

  std::span<const Segment> segments_;
  Position read_;
  Position write_;
};

}  // namespace ronde
