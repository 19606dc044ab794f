#include "backends/shm/memory/streaming.h"

#include <unistd.h>

namespace ronde::shm {
namespace {

/// Where the system does not tell.
constexpr long kUsualCache = 32L << 20;

/// Inputs, outputs and what other programs keep there share the cache: measured, streaming pays
/// from a fifth of it on.
constexpr std::size_t kShare = 5;

std::size_t last_level_cache() noexcept {
#if defined(_SC_LEVEL3_CACHE_SIZE)
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (bytes > 0) return static_cast<std::size_t>(bytes);
#endif
  return static_cast<std::size_t>(kUsualCache);
}

}  // namespace

bool outgrows_caches(int ranks, std::size_t bytes) noexcept {
  static const std::size_t kLimit = last_level_cache() / kShare;
  return static_cast<std::size_t>(ranks) * bytes >= kLimit;
}

}  // namespace ronde::shm
