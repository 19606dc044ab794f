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

/// As wide as the registers: GCC 12 passes wider vectors through the stack.
#if defined(__AVX512F__)
constexpr std::size_t kPartBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kPartBytes = 32;
#else
constexpr std::size_t kPartBytes = 16;
#endif
using Part = std::uint64_t __attribute__((vector_size(kPartBytes)));
constexpr std::size_t kParts = Checksum::kLineBytes / kPartBytes;

/// Memory is asked for so far ahead: the hardware's prefetcher stops at each page.
constexpr std::size_t kAheadBytes = 4096;

inline std::uint64_t hash(const void* data, std::size_t bytes) noexcept {
  return XXH3_64bits(data, bytes);
}

/// Adds one part of a line to the sums of this part of all lines.
inline void add_part(Part& plain, Part& mixed, const Part& part) noexcept {
  plain += part;
  mixed = ((mixed << 11) | (mixed >> 53)) ^ plain;
}

template <bool kCopies, bool kPrefetches>
inline void add_block(Checksum::Sums& sums, std::byte* to, const std::byte* from,
                      std::size_t bytes) noexcept {
  Part plain[kParts];
  Part mixed[kParts];
  std::memcpy(plain, sums.plain, sizeof plain);
  std::memcpy(mixed, sums.mixed, sizeof mixed);
  std::size_t i = 0;
  for (; i + Checksum::kLineBytes <= bytes; i += Checksum::kLineBytes) {
    if constexpr (kPrefetches) __builtin_prefetch(from + i + kAheadBytes, 0, 2);
    _Pragma("GCC unroll 4") for (std::size_t p = 0; p < kParts; ++p) {
      Part part;
      std::memcpy(&part, from + i + p * kPartBytes, sizeof part);
      if constexpr (kCopies) std::memcpy(to + i + p * kPartBytes, &part, sizeof part);
      add_part(plain[p], mixed[p], part);
    }
  }
  if (i < bytes) {
    Part last[kParts] = {};
    std::memcpy(last, from + i, bytes - i);
    if constexpr (kCopies) std::memcpy(to + i, last, bytes - i);
    _Pragma("GCC unroll 4") for (std::size_t p = 0; p < kParts; ++p)
        add_part(plain[p], mixed[p], last[p]);
  }
  // Blocks do not cancel each other's changes.
  _Pragma("GCC unroll 4") for (std::size_t p = 0; p < kParts; ++p) {
    plain[p] = ((plain[p] << 29) | (plain[p] >> 35)) ^ mixed[p];
  }
  std::memcpy(sums.plain, plain, sizeof plain);
  std::memcpy(sums.mixed, mixed, sizeof mixed);
}

inline constexpr ByteLoops kLoops = {hash, add_block<false, false>, add_block<true, false>,
                                     add_block<true, true>};

}  // namespace ronde::RONDE_BYTES_ISA
