// The loops over bytes for one instruction set, which the compiler's options and RONDE_BYTES_ISA
// name; see bytes.h. Included once in each source that is compiled with such options.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the undefined vectors of its own header for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/bytes.h"

namespace ronde::RONDE_BYTES_ISA {

using Line = std::uint64_t __attribute__((vector_size(Checksum::kLineBytes)));

/// Memory is asked for so far ahead: the hardware's prefetcher stops at each page.
constexpr std::size_t kAheadBytes = 4096;

inline std::uint64_t hash(const void* data, std::size_t bytes) noexcept {
  return XXH3_64bits(data, bytes);
}

template <bool kCopies, bool kPrefetches>
inline void add_block(Checksum::Sums& sums, std::byte* to, const std::byte* from,
                      std::size_t bytes) noexcept {
  Line plain;
  Line mixed;
  std::memcpy(&plain, sums.plain, sizeof plain);
  std::memcpy(&mixed, sums.mixed, sizeof mixed);
  const auto add = [&](const Line& line) {
    plain += line;
    mixed = ((mixed << 11) | (mixed >> 53)) ^ plain;
  };
  std::size_t i = 0;
  for (; i + Checksum::kLineBytes <= bytes; i += Checksum::kLineBytes) {
    if constexpr (kPrefetches) __builtin_prefetch(from + i + kAheadBytes, 0, 2);
    Line line;
    std::memcpy(&line, from + i, sizeof line);
    if constexpr (kCopies) std::memcpy(to + i, &line, sizeof line);
    add(line);
  }
  if (i < bytes) {
    Line line{};
    std::memcpy(&line, from + i, bytes - i);
    if constexpr (kCopies) std::memcpy(to + i, &line, bytes - i);
    add(line);
  }
  plain = ((plain << 29) | (plain >> 35)) ^ mixed;  // blocks do not cancel each other's changes
  std::memcpy(sums.plain, &plain, sizeof plain);
  std::memcpy(sums.mixed, &mixed, sizeof mixed);
}

inline constexpr ByteLoops kLoops = {hash, add_block<false, false>, add_block<true, false>,
                                     add_block<true, true>};

}  // namespace ronde::RONDE_BYTES_ISA
