// Waiting where ranks outnumber cores. Yielding the core to a peer takes about a microsecond, less
// than a sleep with a wake-up. Yielding it to another program takes milliseconds. So waits yield
// only as long as that proves cheap.
#pragma once

#include "core/base/clock.h"

namespace ronde {

/// Decides for each wait whether to yield before it sleeps in the kernel. Threads: one at a time.
class AdaptiveYield {
 public:
  /// Starts a wait at `time`.
  void begin(TimePoint time) noexcept;

  /// Whether yield() would let others run.
  [[nodiscard]] bool is_left() const noexcept { return left_ > 0; }

  /// Lets other threads run once. False if the wait should sleep now; then it has not yielded.
  bool yield() noexcept;

  /// Takes the times between which yield() gave the core away. Public for tests.
  void note(TimePoint left, TimePoint returned) noexcept;

 private:
  int left_ = 0;        ///< Yields left in this wait.
  Duration penalty_{};  ///< For how long yielding was given up the last time.
  TimePoint resume_{};  ///< Waits that begin earlier do not yield.
};

}  // namespace ronde
