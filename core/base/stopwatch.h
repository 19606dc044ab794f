// How long something takes, added to a sum.
#pragma once

#include <cstdint>

#include "core/base/clock.h"

namespace ronde {

/// Adds the time until its end to `sum`, where there is one.
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
