#include "core/base/bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ronde {

#if RONDE_HASH_AVX512
std::uint64_t hash64_avx512(const void* data, std::size_t bytes) noexcept;
#endif

namespace {

using Hash = std::uint64_t (*)(const void*, std::size_t) noexcept;

/// Returns the hash by AVX-512 where the processor has it: it gives the same bits.
Hash fastest_hash() noexcept {
#if RONDE_HASH_AVX512
  if (__builtin_cpu_supports("avx512f")) return hash64_avx512;
#endif
  return [](const void* data, std::size_t bytes) noexcept { return XXH3_64bits(data, bytes); };
}

}  // namespace

std::uint64_t hash64(std::span<const std::byte> bytes) noexcept {
  static const Hash kHash = fastest_hash();
  return kHash(bytes.data(), bytes.size());
}

}  // namespace ronde
