// What the kernel's copies cost on this machine: some processors lose several times as much in them
// as in a copy of their own.
#pragma once

namespace ronde::shm {

/// The time of a copy by process_vm_readv in the last-level cache, by memcpy's; infinite where the
/// kernel refuses. Measured once for this process, in about half a millisecond. Threads: any.
double kernel_copy_cost();

}  // namespace ronde::shm
