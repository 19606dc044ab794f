#include "core/ports/segment_cursor.h"

#include <algorithm>
#include <cstring>

namespace ronde {

std::size_t SegmentCursor::available(Position& position, std::size_t limit) const noexcept {
  while (position.offset == segments_[position.segment].bytes) position = {position.segment + 1, 0};
  return std::min(limit, segments_[position.segment].bytes - position.offset);
}

void SegmentCursor::read(std::span<std::byte> to) noexcept {
  while (!to.empty()) {
    const std::size_t bytes = available(read_, to.size());
    const std::byte* in = segments_[read_.segment].in;
    if (in != nullptr) {
      std::memcpy(to.data(), in + read_.offset, bytes);
    } else {
      std::memset(to.data(), 0, bytes);
    }
    read_.offset += bytes;
    to = to.subspan(bytes);
  }
}

void SegmentCursor::write(std::span<const std::byte> from) noexcept {
  while (!from.empty()) {
    const std::size_t bytes = available(write_, from.size());
    std::byte* out = segments_[write_.segment].out;
    if (out != nullptr) std::memcpy(out + write_.offset, from.data(), bytes);
    write_.offset += bytes;
    from = from.subspan(bytes);
  }
}

}  // namespace ronde
