// Parts of a service thread: its waker, and a start with signals blocked.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

#include "core/base/os/file_descriptor.h"
#include "core/base/thread_name.h"

namespace ronde::diagnosis {

/// Why a dump is wanted, or the timeline is to be switched on or off.
enum class Reason : std::uint8_t { kStall = 1, kSignal = 2, kFailure = 4, kTimeline = 8 };

/// Wakes a service thread for a reason. Threads: any, wake() in signal handlers too.
class Waker {
 public:
  /// Asks for a dump. Blocks: never.
  void wake(Reason reason) noexcept {
    reasons_.fetch_or(static_cast<std::uint8_t>(reason), std::memory_order_release);
    wake();
  }
  /// Wakes the thread that polls fd(), without a reason.
  void wake() noexcept { notify_event(fd_.get()); }
  /// The reasons since the last call, as a set of bits.
  [[nodiscard]] std::uint8_t take() noexcept {
    clear_event(fd_.get());
    return reasons_.exchange(0, std::memory_order_acquire);
  }
  /// Readable when there is something to take; -1 where the process has no descriptor left.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

 private:
  const FileDescriptor fd_ = make_event();
  std::atomic<std::uint8_t> reasons_{0};
};

/// Starts a thread that runs `body` with all signals blocked. Errors: std::system_error.
std::thread start_without_signals(auto body) {
  const SignalsBlocked blocked;
  return std::thread(std::move(body));
}

}  // namespace ronde::diagnosis
