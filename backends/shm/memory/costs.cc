#include "backends/shm/memory/costs.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/shm/memory/reach.h"
#include "core/base/clock.h"

namespace ronde::shm {
namespace {

/// The bytes that each rank copies in the smallest allreduce between two that uses the kernel. The
/// best of several tries counts, as others may take the core meanwhile.
constexpr std::size_t kBytes = std::size_t{256} << 10;
constexpr int kTries = 4;

template <typename Copy>
Duration best_of(Copy copy) {
  Duration best = Duration::max();
  for (int i = 0; i < kTries; ++i) {
    const TimePoint start = now();
    if (!copy()) return Duration::max();
    best = std::min(best, now() - start);
  }
  return best;
}

double measure() {
  const std::vector<std::byte> from(kBytes, std::byte{1});
  std::vector<std::byte> to(kBytes);
  const Duration by_kernel =
      best_of([&] { return can_read(getpid(), from.data(), to.data(), kBytes); });
  if (by_kernel == Duration::max()) return std::numeric_limits<double>::infinity();
  const Duration by_memcpy = best_of([&] {
    std::memcpy(to.data(), from.data(), kBytes);
    asm volatile("" : : "r"(to.data()) : "memory");  // the copy must not be left out
    return true;
  });
  return static_cast<double>(by_kernel.count()) /
         static_cast<double>(std::max<Duration::rep>(by_memcpy.count(), 1));
}

/// If the system reports none.
constexpr long kUsualCache = 32L << 20;

/// Inputs, outputs and other programs share the cache. By measurement streaming pays from a fifth
/// of it on.
constexpr std::size_t kShare = 5;

std::size_t last_level_cache() noexcept {
#if defined(_SC_LEVEL3_CACHE_SIZE)
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (bytes > 0) return static_cast<std::size_t>(bytes);
#endif
  return static_cast<std::size_t>(kUsualCache);
}

}  // namespace

double kernel_copy_cost() {
  static const double kCost = measure();
  return kCost;
}

bool outgrows_caches(int ranks, std::size_t bytes) noexcept {
  static const std::size_t kLimit = last_level_cache() / kShare;
  return static_cast<std::size_t>(ranks) * bytes >= kLimit;
}

}  // namespace ronde::shm
