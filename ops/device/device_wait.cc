#include "ops/device/device_wait.h"

#include <chrono>
#include <thread>

#include "core/base/clock.h"

namespace ronde {

Status wait_on_host(const DeviceEvent& event, const AbortToken& abort) {
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
