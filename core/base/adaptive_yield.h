// Waiting where ranks outnumber cores: giving the core to whoever else wants it costs a microsecond
// where that is a peer, which is less than sleeping and being woken, and milliseconds where it is
// another program. So it is done only as long as it proves cheap.
#pragma once

#include "core/base/clock.h"

namespace ronde {

/// Decides, wait after wait, whether to yield before sleeping in the kernel. Threads: one at a
/// time.
class AdaptiveYield {
 public:
  /// Starts a wait at `time`.
  void begin(TimePoint time) noexcept;

  /// Whether yield() would let others run.
  [[nodiscard]] bool is_left() const noexcept { return left_ > 0; }

  /// Lets other threads run once; false, and no more than that, where the wait should sleep now.
  bool yield() noexcept;

  /// What yield() learns from: the core was away between two times. Public for tests.
  void note(TimePoint left, TimePoint returned) noexcept;

 private:
  int left_ = 0;        ///< Yields left in this wait.
  Duration penalty_{};  ///< For how long yielding was given up the last time.
  TimePoint resume_{};  ///< Waits that begin earlier do not yield.
};

}  // namespace ronde
