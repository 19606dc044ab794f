// Monotonic time, and how long something takes.
#pragma once

#include <chrono>
#include <cstdint>

namespace ronde {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

/// A deadline that never passes.
inline constexpr TimePoint kForever = TimePoint::max();

inline TimePoint now() noexcept { return std::chrono::steady_clock::now(); }

inline std::int64_t to_ns(Duration duration) noexcept {
  return std::chrono::nanoseconds(duration).count();
}
inline std::int64_t to_ns(TimePoint when) noexcept { return to_ns(when.time_since_epoch()); }

/// Adds the time until its end to `sum`; null measures nothing.
class Stopwatch {
 public:
  explicit Stopwatch(std::int64_t* sum) : sum_(sum), start_(sum ? now() : TimePoint{}) {}
  ~Stopwatch() {
    if (sum_ != nullptr) *sum_ += to_ns(now() - start_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::int64_t* const sum_;
  const TimePoint start_;
};

}  // namespace ronde
