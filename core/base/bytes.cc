#include "core/base/bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ronde {

std::uint64_t hash64(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace ronde
