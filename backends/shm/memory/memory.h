// The memory of shared-memory groups: reserved before use, and mapped in huge pages; and the costs
// of copies on this machine.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "core/base/os/memory_file.h"
#include "core/base/status.h"

namespace ronde::shm {

/// Bytes of a huge page.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// As make_memory_file(). Errors: kUnavailable, so that another data plane is tried.
Result<FileDescriptor> create_memory(std::size_t bytes);

/// Makes this part of a memory exist, so that no later access can fail. On a machine with several
/// NUMA nodes it lies near this thread's core. Errors: kUnavailable.
Status reserve_memory(const FileDescriptor& memory, std::size_t offset, std::size_t bytes);

/// Opens what process `pid` holds as descriptor `fd`.
/// Errors: kUnavailable where that is hidden from us or is not such memory of `bytes`.
Result<FileDescriptor> open_memory(pid_t pid, int fd, std::size_t bytes);

/// Maps all of it for reading and writing, from a huge page's border on where it has that size.
/// Errors: kUnavailable.
Result<Mapping> map_memory(const FileDescriptor& memory, std::size_t bytes);

/// Asks the kernel for huge pages in a mapping whose memory exists. They save page faults and TLB
/// misses in every process that maps it. If that is impossible (Linux before 6.1, no huge pages
/// left), nothing changes. `data` is on a huge page's border.
void use_huge_pages(std::byte* data, std::size_t bytes) noexcept;

/// The time of a copy by process_vm_readv in the last-level cache, divided by memcpy's; infinite if
/// the kernel refuses. Measured once for this process, in about half a millisecond. Threads: any.
double kernel_copy_cost();

/// True if tensors of `bytes` on each of so many ranks outgrow the last-level cache. Then writing
/// outputs past the caches saves reading what is overwritten. Below, it takes two or three times as
/// long as writing into the cache.
bool outgrows_caches(int ranks, std::size_t bytes) noexcept;

}  // namespace ronde::shm
