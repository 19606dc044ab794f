// Reading the memory of the other ranks of a group where it lies, without a copy in between: what
// the kernel copies from process to process (process_vm_readv).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/shm/futex.h"
#include "core/base/status.h"
#include "core/ports/backend.h"

namespace ronde::shm {

/// Whether this process may read `bytes` at `from` in process `pid`. One page at most.
bool can_read(pid_t pid, const void* from, void* to, std::size_t bytes) noexcept;

/// Whether the kernel can copy from the first byte of every input and output: memory of devices
/// cannot be. Null addresses cannot either.
bool is_reachable(std::span<const Segment> segments) noexcept;

/// Copies that this rank makes from one peer's memory, gathered into few system calls.
/// Threads: one at a time.
class Pull {
 public:
  Pull(pid_t pid, const Stop& stop) noexcept : pid_(pid), stop_(stop) {}

  /// Adds a copy of `bytes` from the peer's address `from`. May run those added so far.
  /// Errors: as finish.
  Status add(const std::byte* from, std::byte* to, std::size_t bytes);

  /// Runs the copies added so far. Blocks. Errors: the abort's status; kRankFailure where the
  /// peer's memory is gone, once whoever watches over deaths has had time to say so.
  Status finish();

 private:
  static constexpr std::size_t kPieces = 64;
  /// Between two calls an abort is seen.
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;

  Status read();
  Status fail(int error) const;

  const pid_t pid_;
  const Stop& stop_;
  std::array<iovec, kPieces> from_{};
  std::array<iovec, kPieces> to_{};
  std::size_t pieces_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace ronde::shm
