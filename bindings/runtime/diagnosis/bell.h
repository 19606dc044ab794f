// How the diagnosis is asked for from inside the process: by threads that must not wait, and by
// signal handlers.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/os/file_descriptor.h"

namespace ronde::diagnosis {

/// Why a dump is wanted, or the timeline is to be switched on or off.
enum class Reason : std::uint8_t { kStall = 1, kSignal = 2, kFailure = 4, kTimeline = 8 };

/// Threads: any, ring() in signal handlers too.
class Bell {
 public:
  /// Asks for a dump. Blocks: never.
  void ring(Reason reason) noexcept;
  /// Wakes who polls fd(), with nothing to do.
  void wake() noexcept { notify_event(fd_.get()); }
  /// What has been asked for since the last call, as a set of bits.
  [[nodiscard]] std::uint8_t take() noexcept;
  /// Readable when there is something to take; -1 where the process has no descriptor left.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

 private:
  const FileDescriptor fd_ = make_event();
  std::atomic<std::uint8_t> reasons_{0};
};

}  // namespace ronde::diagnosis
