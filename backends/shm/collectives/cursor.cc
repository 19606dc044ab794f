#include "backends/shm/collectives/cursor.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "backends/shm/memory/wait.h"

namespace ronde::shm {
namespace {

constexpr std::size_t kSmallestStream = 4096;
constexpr std::size_t kLineBytes = 64;
/// How far ahead memory is asked for. The hardware's prefetcher stops at each page; reading from
/// memory across pages is almost twice as fast with this.
constexpr std::size_t kAheadBytes = 4096;

/// memcpy for a source that lies in memory rather than in a cache.
void copy_from_memory(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t i = 0;
  for (; i + kLineBytes <= bytes; i += kLineBytes) {
    __builtin_prefetch(from + i + kAheadBytes, 0, 2);
    std::memcpy(to + i, from + i, kLineBytes);
  }
  std::memcpy(to + i, from + i, bytes - i);
}

/// memcpy that leaves the caches as they are, and does not read the lines that it overwrites.
void stream_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % kLineBytes;
  std::size_t i = std::min(bytes, (kLineBytes - misaligned) % kLineBytes);
  std::memcpy(to, from, i);
  for (; i + kLineBytes <= bytes; i += kLineBytes) {
    for (std::size_t j = i; j < i + kLineBytes; j += sizeof(__m128i)) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + j), value);
    }
  }
  std::memcpy(to + i, from + i, bytes - i);
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace

Copier::~Copier() { fence(); }

void Copier::fence() const noexcept {
  if (streaming_) streaming_fence();
}

void Cursor::seek(std::size_t offset) noexcept {
  while (index_ < segments_.size() && passed_ < offset) {
    advance(std::min(offset - passed_, segments_[index_].bytes - within_));
  }
}

Segment Cursor::piece(const Segment& segment, std::size_t size) const noexcept {
  return {.in = segment.in == nullptr ? nullptr : segment.in + within_,
          .out = segment.out == nullptr ? nullptr : segment.out + within_,
          .bytes = size};
}

void Cursor::advance(std::size_t size) noexcept {
  within_ += size;
  passed_ += size;
  if (within_ < segments_[index_].bytes) return;
  ++index_;
  within_ = 0;
}

void Copier::fill(std::byte* slot, const Segment& piece, Checksum* sum) const {
  if (piece.in == nullptr) {
    std::memset(slot, 0, piece.bytes);
    if (sum != nullptr) sum->add({slot, piece.bytes});
  } else if (sum != nullptr) {
    sum->copy_from_afar(slot, piece.in, piece.bytes);
  } else if (piece.bytes < kSmallestStream) {
    std::memcpy(slot, piece.in, piece.bytes);
  } else {
    copy_from_memory(slot, piece.in, piece.bytes);
  }
}

/// A block that has several pieces, or ends before `bytes`, gets its checksum once it is whole.
void Copier::copy_in(Cursor& from, std::size_t bytes, std::byte* slot, Checksum* sum) const {
  const bool whole = from.is_whole(bytes);
  const std::byte* const block = slot;
  from.take(bytes, [&](const Segment& piece) {
    fill(slot, piece, whole ? sum : nullptr);
    slot += piece.bytes;
  });
  if (sum != nullptr && !whole) sum->add({block, bytes});
}

void Copier::copy_through(Cursor& from, std::size_t bytes, std::byte* slot, Checksum* sum) const {
  const bool whole = from.is_whole(bytes);
  const std::byte* const block = slot;
  from.take(bytes, [&](const Segment& piece) {
    fill(slot, piece, whole ? sum : nullptr);
    if (piece.out != nullptr && piece.out != piece.in) {
      write(piece.in == nullptr ? slot : piece.in, piece.out, piece.bytes);
    }
    slot += piece.bytes;
  });
  if (sum != nullptr && !whole) sum->add({block, bytes});
}

void Copier::copy_out(const std::byte* slot, std::size_t bytes, Cursor& to, Checksum* sum) const {
  const bool whole = to.is_whole(bytes);
  if (sum != nullptr && !whole) sum->add({slot, bytes});
  to.take(bytes, [&](const Segment& piece) {
    if (piece.out != nullptr) {
      write(slot, piece.out, piece.bytes, whole ? sum : nullptr);
    } else if (sum != nullptr && whole) {
      sum->add({slot, piece.bytes});
    }
    slot += piece.bytes;
  });
}

void Copier::write_result(const std::byte* from, std::byte* out, std::size_t bytes,
                          Checksum* sum) const {
  if (sum == nullptr || streaming_) return write(from, out, bytes, sum);
  sum->copy(out, from, bytes);
}

void Copier::write(const std::byte* from, std::byte* out, std::size_t bytes, Checksum* sum) const {
  if (sum != nullptr && !streaming_) return sum->copy_from_afar(out, from, bytes);
  if (sum != nullptr) sum->add({from, bytes});
  if (!streaming_ || bytes < kSmallestStream) {
    std::memcpy(out, from, bytes);
  } else {
    stream_past_caches(out, from, bytes);
  }
}

}  // namespace ronde::shm
