// The hash by AVX-512, for processors that have it; see bytes.h. Compiled apart, as no other code
// may use these instructions.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>

namespace ronde {

std::uint64_t hash64_avx512(const void* data, std::size_t bytes) noexcept {
  return XXH3_64bits(data, bytes);
}

}  // namespace ronde
