// Reads and writes the other ranks' memory without a copy in between: the kernel copies from
// process to process (process_vm_readv, process_vm_writev).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/shm/memory/wait.h"
#include "core/base/status.h"
#include "core/ports/backend.h"

namespace ronde::shm {

/// True if this process may read `bytes` at `from` in process `pid`: copies them.
bool can_read(pid_t pid, const void* from, void* to, std::size_t bytes) noexcept;

/// True if it may write `bytes` to `to` there. One page at most.
bool can_write(pid_t pid, const void* from, void* to, std::size_t bytes) noexcept;

/// True if the kernel can copy from the first byte of every input and output: memory of devices
/// cannot be. Null addresses cannot either.
bool is_reachable(std::span<const Segment> segments) noexcept;

/// The error of a rank whose peer does not answer as before. It is the abort's status, once the
/// death watch has had time to report it, or else `otherwise`. Blocks.
Status verdict(const Stop& stop, Status otherwise);

/// Copies between this rank's memory and one peer's, gathered into few system calls. Copies nothing
/// more after an error. Threads: one at a time.
class PeerCopy {
 public:
  /// kPull copies from the peer's memory, kPush to it; write_permission.h says when that may be.
  enum class Direction : std::uint8_t { kPull, kPush };

  PeerCopy(Direction direction, pid_t pid, const Stop& stop) noexcept
      : direction_(direction), pid_(pid), stop_(stop) {}

  /// Adds a copy of `bytes`. May run those added so far.
  void add(const std::byte* from, std::byte* to, std::size_t bytes);
  /// Runs the copies added so far. Blocks. Errors, of any copy: the abort's status; kRankFailure
  /// where the peer's memory is gone, once the death watch has had time to report it.
  Status finish();

 private:
  static constexpr std::size_t kPieces = 64;
  /// Checks for an abort between two calls.
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;

  Status copy();

  const Direction direction_;
  const pid_t pid_;
  const Stop& stop_;
  std::array<iovec, kPieces> here_;
  std::array<iovec, kPieces> there_;
  std::size_t pieces_ = 0;
  std::size_t bytes_ = 0;
  Status status_;
};

}  // namespace ronde::shm
