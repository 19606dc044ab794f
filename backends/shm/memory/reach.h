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

/// Copies between this rank's memory and one peer's, gathered into few system calls.
/// Threads: one at a time.
class PeerCopy {
 public:
  /// Runs the copies added so far. Blocks. Errors: the abort's status; kRankFailure where the
  /// peer's memory is gone, once the death watch has had time to report it.
  Status finish();

 protected:
  /// process_vm_readv or process_vm_writev.
  using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                           unsigned long);

  PeerCopy(Call call, pid_t pid, const Stop& stop) noexcept : call_(call), pid_(pid), stop_(stop) {}

  /// Adds a copy of `bytes` between this process and the peer. May run those added so far.
  /// Errors: as finish.
  Status add_piece(std::byte* here, std::byte* there, std::size_t bytes);

 private:
  static constexpr std::size_t kPieces = 64;
  /// Checks for an abort between two calls.
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;

  Status copy();
  Status fail(int error) const;

  const Call call_;
  const pid_t pid_;
  const Stop& stop_;
  std::array<iovec, kPieces> here_;
  std::array<iovec, kPieces> there_;
  std::size_t pieces_ = 0;
  std::size_t bytes_ = 0;
};

/// Copies from the peer's memory.
class Pull : public PeerCopy {
 public:
  Pull(pid_t pid, const Stop& stop) noexcept : PeerCopy(&process_vm_readv, pid, stop) {}

  /// Adds a copy of `bytes` from the peer's address `from`. Errors: as finish.
  Status add(const std::byte* from, std::byte* to, std::size_t bytes) {
    return add_piece(to, const_cast<std::byte*>(from), bytes);
  }
};

/// Copies to the peer's memory; see write_permission.h for when that may be written.
class Push : public PeerCopy {
 public:
  Push(pid_t pid, const Stop& stop) noexcept : PeerCopy(&process_vm_writev, pid, stop) {}

  /// Adds a copy of `bytes` to the peer's address `to`. Errors: as finish.
  Status add(const std::byte* from, std::byte* to, std::size_t bytes) {
    return add_piece(const_cast<std::byte*>(from), to, bytes);
  }
};

}  // namespace ronde::shm
