// The costs of copies on this machine: those by the kernel, and those past the caches. Some
// processors lose several times as much in the kernel's copies as in a copy of their own.
#pragma once

#include <cstddef>

namespace ronde::shm {

/// The time of a copy by process_vm_readv in the last-level cache, divided by memcpy's; infinite if
/// the kernel refuses. Measured once for this process, in about half a millisecond. Threads: any.
double kernel_copy_cost();

/// True if tensors of `bytes` on each of so many ranks outgrow the last-level cache. Then writing
/// outputs past the caches saves reading what is overwritten. Below, it takes two or three times as
/// long as writing into the cache.
bool outgrows_caches(int ranks, std::size_t bytes) noexcept;

}  // namespace ronde::shm
