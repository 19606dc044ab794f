// From which size on outputs are written past the caches.
#pragma once

#include <cstddef>

namespace ronde::shm {

/// Whether tensors of `bytes` on each of so many ranks are more than the last-level cache keeps for
/// them: then writing outputs past the caches saves reading what is overwritten; below, it takes
/// two or three times as long as writing into the cache.
bool outgrows_caches(int ranks, std::size_t bytes) noexcept;

}  // namespace ronde::shm
