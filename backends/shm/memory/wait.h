// Waiting between processes: spin for a moment, then sleep on a futex in shared memory. The writer
// of the word needs a system call only if a rank sleeps on it.
#pragma once

#include <sched.h>

#include <chrono>

#include "core/base/abort.h"
#include "core/base/clock.h"
#include "core/base/os/futex.h"
#include "core/base/status.h"

namespace ronde::shm {

/// Hints to the core that this is a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Completes writes past the caches before any later write is seen.
inline void streaming_fence() noexcept {
#if defined(__SSE2__)
  __builtin_ia32_sfence();
#endif
}

/// A sleep never lasts longer, so that an abort is seen within it.
inline constexpr std::chrono::microseconds kSleepSlice{2000};

/// The tokens that end a wait early: the call's or the group's own (which may be null).
class Stop {
 public:
  Stop(const AbortToken& call, const AbortToken* group) noexcept : call_(call), group_(group) {}
  [[nodiscard]] bool aborted() const noexcept {
    return call_.aborted() || (group_ != nullptr && group_->aborted());
  }
  /// As aborted(), before each sleep.
  [[nodiscard]] bool poll() const {
    return call_.poll() || (group_ != nullptr && group_->aborted());
  }
  /// Ok, or the reason of the token that was aborted.
  [[nodiscard]] Status status() const {
    if (call_.aborted() || group_ == nullptr) return call_.status();
    return group_->status();
  }

 private:
  const AbortToken& call_;
  const AbortToken* group_;
};

/// How long a wait spins before it sleeps. Zero if the host's ranks outnumber its cores: it yields
/// instead.
using SpinLimit = std::chrono::microseconds;

/// Spins until `ready()`, at most `limit`; true if it became ready. It sometimes yields, as the
/// scheduler may have put two ranks on one core.
template <typename Ready>
bool spin_until(Ready ready, SpinLimit limit, const Stop& stop) {
  const TimePoint deadline = now() + limit;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      cpu_relax();
    }
    sched_yield();
  } while (now() < deadline && !stop.aborted());
  return ready();
}

/// Spins or yields before a wait sleeps; true if it became ready. Threads: one at a time.
class Awaiter {
 public:
  explicit Awaiter(SpinLimit spin) noexcept : spin_(spin) {}

  /// True if ranks outnumber cores, the same on all ranks.
  [[nodiscard]] bool crowded() const noexcept { return spin_ == SpinLimit::zero(); }

  template <typename Ready>
  bool becomes(Ready ready, const Stop& stop) {
    if (ready()) return true;
    if (!crowded()) return spin_until(ready, spin_, stop);
    yields_.begin(now());
    while (yields_.yield()) {
      if (ready()) return true;
      if (stop.aborted()) return false;
    }
    return false;
  }

 private:
  const SpinLimit spin_;
  AdaptiveYield yields_;
};

}  // namespace ronde::shm
