// Waits for what another thread or process does.
#pragma once

#include <unistd.h>

#include <functional>

#include "core/base/clock.h"

namespace ronde {

/// Looks until `done`, for 20 s at most; returns the last look.
inline bool wait_for(const std::function<bool()>& done) {
  const TimePoint deadline = now() + std::chrono::seconds(20);
  while (!done() && now() < deadline) ::usleep(2000);
  return done();
}

}  // namespace ronde
