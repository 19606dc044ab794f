// Walks the bytes of a list of segments as one buffer, and moves them between user memory and
// slots. So fused operations need no copy into one buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/base/bytes.h"
#include "core/ports/backend.h"

namespace ronde::shm {

/// Position in the bytes of `segments`, one after another; only moves forward.
class Cursor {
 public:
  Cursor() = default;
  explicit Cursor(std::span<const Segment> segments) noexcept : segments_(segments) {}

  /// The segment it is in, and the position in it; in take(), where the visited piece begins.
  [[nodiscard]] std::size_t segment() const noexcept { return index_; }
  [[nodiscard]] std::size_t within() const noexcept { return within_; }

  /// True if the next `bytes` bytes lie in one segment.
  [[nodiscard]] bool is_whole(std::size_t bytes) const noexcept {
    return index_ < segments_.size() && bytes <= segments_[index_].bytes - within_;
  }

  /// Goes on to byte `offset`, not before the present position.
  void seek(std::size_t offset) noexcept;

  /// Calls `visit(Segment)` for each piece of the next `bytes` bytes (fewer at the end) and moves
  /// past them. Null addresses stay null.
  template <typename Visit>
  void take(std::size_t bytes, Visit visit) {
    while (bytes > 0 && index_ < segments_.size()) {
      const Segment& segment = segments_[index_];
      const std::size_t size = std::min(bytes, segment.bytes - within_);
      if (size > 0) visit(piece(segment, size));
      bytes -= size;
      advance(size);
    }
  }

 private:
  [[nodiscard]] Segment piece(const Segment& segment, std::size_t size) const noexcept;
  void advance(std::size_t size) noexcept;

  std::span<const Segment> segments_;
  std::size_t index_ = 0;   ///< Segment.
  std::size_t within_ = 0;  ///< Bytes of it that are behind us.
  std::size_t passed_ = 0;  ///< Bytes of all segments that are behind us.
};

/// Copies between user memory and slots, in blocks of Checksum::kBlockBytes where `sum` is not
/// null: it gets what is copied.
class Copier {
 public:
  /// `streaming`: outputs are written past the caches.
  explicit Copier(bool streaming) noexcept : streaming_(streaming) {}
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;
  /// Makes writes past the caches visible to other threads.
  ~Copier();

  /// Next `bytes` of the inputs to `slot`; zeros where there is no input.
  void copy_in(Cursor& from, std::size_t bytes, std::byte* slot, Checksum* sum = nullptr) const;

  /// As copy_in; also copies each piece to its output, where that is another address.
  void copy_through(Cursor& from, std::size_t bytes, std::byte* slot,
                    Checksum* sum = nullptr) const;

  /// `bytes` at `slot` to the next outputs, where there are any.
  void copy_out(const std::byte* slot, std::size_t bytes, Cursor& to,
                Checksum* sum = nullptr) const;

  /// Does what the destructor does, now.
  void fence() const noexcept;

  /// One contiguous copy to a slot: of `piece.in`, or zeros without it.
  void fill(std::byte* slot, const Segment& piece, Checksum* sum = nullptr) const;

  /// One contiguous copy to user memory.
  void write(const std::byte* from, std::byte* out, std::size_t bytes,
             Checksum* sum = nullptr) const;
  /// The same, of what is in the L1 cache.
  void write_result(const std::byte* from, std::byte* out, std::size_t bytes, Checksum* sum) const;

 private:
  const bool streaming_;
};

}  // namespace ronde::shm
