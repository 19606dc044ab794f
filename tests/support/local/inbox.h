// The events that one rank of a local job polls for, and when they wake it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/os/futex.h"
#include "core/base/status.h"
#include "core/ports/control_channel.h"

namespace ronde {

/// One frame, or the end of a rank, with its reason.
struct InboxItem {
  enum class Kind : std::uint8_t { kFrame, kLost, kLeft };
  Kind kind = Kind::kFrame;
  int from = 0;
  std::vector<std::byte> frame;
  Status reason;
};

/// Frames and losses on their way to one rank, in order. Threads: any.
class LocalInbox {
 public:
  /// Queues a frame and wakes no thread. Dropped if `from` is gone or the inbox closed.
  void deliver(int from, std::span<const std::byte> frame) RONDE_EXCLUDES(mutex_);

  /// Queues the end of a rank (kLost or kLeft), the first one only, and wakes all sleepers.
  void end(int rank, InboxItem::Kind kind, const Status& reason) RONDE_EXCLUDES(mutex_);

  /// Ok, or the reason why `rank` is gone.
  [[nodiscard]] Status end_of(int rank) const RONDE_EXCLUDES(mutex_);

  /// Wakes the thread that prepare_wait() named, where there is something to read.
  void wake_if_unread() RONDE_EXCLUDES(mutex_);

  /// Everything that has come. From the second call after prepare_wait() on it also marks the owner
  /// as polling, so that it need not be woken.
  std::deque<InboxItem> take() RONDE_EXCLUDES(mutex_);

  /// Names the thread to wake from now on; returns the ticket for wait().
  std::uint32_t prepare_wait(Sleeper who) RONDE_EXCLUDES(mutex_);
  void wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept;
  /// Safe in signal handlers.
  void wake(Sleeper who) noexcept;

  /// Drops what is queued and all that will come; ends all waits.
  void close() RONDE_EXCLUDES(mutex_);

 private:
  /// The owner's state between polling and sleeping.
  enum class Phase : std::uint8_t { kPolling, kLastLook, kSleeping };

  mutable Mutex mutex_;
  std::deque<InboxItem> items_ RONDE_GUARDED_BY(mutex_);
  std::map<int, Status> gone_ RONDE_GUARDED_BY(mutex_);
  bool closed_ RONDE_GUARDED_BY(mutex_) = false;
  Phase phase_ RONDE_GUARDED_BY(mutex_) = Phase::kSleeping;
  Sleeper sleeper_ RONDE_GUARDED_BY(mutex_) = Sleeper::kBackground;
  std::array<WakeWord, 2> words_;  // by Sleeper
};

}  // namespace ronde
