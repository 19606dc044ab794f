#include "core/base/adaptive_yield.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace ronde {
namespace {

constexpr int kYields = 100;
/// A scheduler's time slice is longer, the work of a peer on a small operation shorter.
constexpr std::chrono::microseconds kDear{500};
constexpr std::chrono::milliseconds kLeastPenalty{20};
constexpr std::chrono::milliseconds kMostPenalty{1000};

}  // namespace

void AdaptiveYield::begin(TimePoint time) noexcept { left_ = time < resume_ ? 0 : kYields; }

bool AdaptiveYield::yield() noexcept {
  if (!is_left()) return false;
  --left_;
  const TimePoint start = now();
  sched_yield();
  note(start, now());
  return true;
}

void AdaptiveYield::note(TimePoint left, TimePoint returned) noexcept {
  if (returned - left < kDear) return;
  const bool again = left - resume_ < penalty_;
  penalty_ = again ? std::min<Duration>(2 * penalty_, kMostPenalty) : Duration(kLeastPenalty);
  resume_ = returned + penalty_;
  left_ = 0;
}

}  // namespace ronde
