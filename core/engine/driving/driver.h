// The threads that drive the engine. A caller that waits takes the driving role and all steps. A
// background thread takes the role when tasks or frames come while no caller waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "core/base/os/futex.h"
#include "core/engine/driving/driving_policy.h"
#include "core/engine/driving/interrupts.h"
#include "core/engine/driving/progress.h"
#include "core/engine/peers/membership.h"
#include "core/engine/queues/driving_role.h"
#include "core/engine/queues/operation.h"

namespace ronde {

/// Counts the calling thread among those inside an object while it lives.
class Inside {
 public:
  explicit Inside(std::atomic<int>& count) noexcept : count_(count) {
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  ~Inside() { count_.fetch_sub(1, std::memory_order_release); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::atomic<int>& count_;
};

/// Takes the engine's steps for callers that wait, or in a thread of its own.
/// Threads: any, unless a member says otherwise.
class Driver {
 public:
  using Predicate = DrivingRole::Predicate;

  struct Options {
    std::chrono::microseconds spin{0};                 ///< See EngineOptions::spin.
    Duration far_deadline = std::chrono::seconds(10);  ///< See EngineOptions::far_deadline.
  };

  /// Starts the background thread. All references outlive the driver.
  Driver(ControlChannel& channel, DrivingRole& role, Progress& progress, Membership& membership,
         const Options& options);
  ~Driver() { stop(); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// Ends the background thread, and waits until all callers have gone. Blocks. Threads: one.
  void stop();

  /// Blocks until `done`, which is called with the role's mutex held and so must not take it.
  /// Errors: kTimeout, kInterrupted, or that of the interrupt check.
  Status wait_until(const Predicate& done, const WaitOptions& options);
  /// Ends the waits of callers; see Engine::interrupt.
  void interrupt() noexcept;
  /// True if help() is likely to end an operation.
  [[nodiscard]] bool should_help() noexcept { return inline_driving_.wanted(); }
  /// Drives for a moment, without sleeping, until the operation is done.
  void help(const Operation& operation, TimePoint until);
  /// Keeps the driver alive while the result lives.
  [[nodiscard]] Inside enter() noexcept { return Inside(callers_inside_); }

 private:
  /// Yields or sleeps, once a driving caller has spun for long enough.
  enum class WhenIdle { kSleep, kLeave };

  void drive_for(const Predicate& done, const WaitOptions& options, std::uint64_t ignored,
                 TimePoint until);
  void give_up(bool late);
  void release_role();
  void drive(const Predicate& done, TimePoint until, WhenIdle when_idle);
  bool rest(Duration idle);
  void sleep_as_caller(const Predicate& done, TimePoint until);
  void background_main();
  void background_turn();
  void gather_tasks();

  // Const after construction, or safe by itself.
  ControlChannel& channel_;
  DrivingRole& role_;
  Progress& progress_;
  Membership& membership_;
  const Options options_;
  Interrupts interrupts_;
  InlineDrivePolicy inline_driving_;
  std::atomic<int> callers_inside_{0};  // threads that the destructor must let go first
  // Driving thread only.
  TimePoint background_deadline_ = kForever;  // until when the background thread sleeps
  AdaptiveYield yields_;
  // Background thread only.
  BatchingPolicy batching_;

  std::thread background_;  // last
};

}  // namespace ronde
