// Who drives the links of a HealingTransport: a caller that waits, or the transport's own thread
// once no caller has driven them for a while.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/os/file_descriptor.h"

namespace ronde::net {

/// Threads: any, each with the transport's mutex.
class DriverTurn {
 public:
  /// `wake`: an event; while it is readable, the thread is to leave its sleep in poll().
  explicit DriverTurn(FileDescriptor wake) : wake_(std::move(wake)) {}

  // For callers.

  /// A caller may add connections that the thread's poll() does not know of.
  void note_call();
  void begin_wait() noexcept { caller_waits_ = true; }
  /// `broken`: nothing moves any more.
  void end_wait(bool broken);
  /// The thread drives from now on, whatever callers do.
  void leave();
  /// The thread ends.
  void stop();
  /// Sleeps until the thread has driven, or for that time.
  void wait_for_thread(Mutex& mutex, Duration limit) RONDE_REQUIRES(mutex) {
    turn_->wait_until(mutex, now() + limit);
  }

  // For the thread.

  /// False if no caller has driven the links for a while, or at the end. Sleeps a while otherwise.
  bool stay_away(Mutex& mutex, bool broken) RONDE_REQUIRES(mutex);
  [[nodiscard]] bool stopped() const noexcept { return stop_; }
  /// The thread begins its turn.
  void begin() { clear_event(wake_.get()); }
  /// Its turn has ended; it polls next, if it does.
  void end(bool polls);
  /// For its poll().
  [[nodiscard]] int wake() const noexcept { return wake_.get(); }

  /// In a forked child: a thread of the parent may wait there.
  void forget() noexcept { (void)turn_.release(); }

 private:
  void rouse();

  const FileDescriptor wake_;
  std::unique_ptr<CondVar> turn_ = std::make_unique<CondVar>();
  bool caller_waits_ = false;
  bool thread_rests_ = false;  // until a caller stops waiting
  bool thread_polls_ = false;  // on descriptors that may be old
  std::uint64_t calls_ = 0;
  std::uint64_t calls_seen_ = 0;
  bool leaves_ = false;
  bool stop_ = false;
};

}  // namespace ronde::net
