// A host thread's wait for a device, for the few places that cannot leave it to a stream.
#pragma once

#include <chrono>
#include <thread>

#include "core/base/abort.h"
#include "core/base/clock.h"
#include "core/ports/device_ops.h"

namespace ronde {

/// Blocks until the event is reached: spins briefly, then looks every 50 us.
/// Errors: the abort's status; DeviceEvent::reached()'s.
inline Status wait_on_host(const DeviceEvent& event, const AbortToken& abort) {
  constexpr auto kSpin = std::chrono::microseconds(20);
  const TimePoint start = now();
  for (;;) {
    RONDE_ASSIGN_OR_RETURN(const bool reached, event.reached());
    if (reached) return {};
    if (abort.poll()) return abort.status();
    if (now() - start < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

}  // namespace ronde
