// Measures device time with the device's clock. Works to compare take turns, so that both run at
// the same clock rate and beside the same other work.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "core/base/abort.h"
#include "core/ports/device_ops.h"
#include "ops/memory/device_wait.h"

namespace ronde::test {

/// Queues something to measure; false where that failed.
using Queue = std::function<bool()>;

/// Device time of one of `launches` runs of `queue` on an idle stream, in ns.
inline double device_ns(DeviceOps& device, DeviceStream stream, const Queue& queue, int launches) {
  const DeviceEventPtr begin = device.record(stream, EventUse::kTime).value();
  for (int i = 0; i < launches; ++i) REQUIRE(queue());
  const DeviceEventPtr end = device.record(stream, EventUse::kTime).value();
  REQUIRE(wait_on_host(*end, AbortToken()).ok());
  return static_cast<double>(end->ns_since(*begin).value()) / launches;
}

/// The median device time of each of the works, in ns, of 21 turns after 3 to warm up.
template <std::size_t kWorks>
std::array<double, kWorks> by_turns(DeviceOps& device, DeviceStream stream,
                                    const std::array<Queue, kWorks>& works) {
  constexpr int kLaunches = 10;
  std::array<std::vector<double>, kWorks> times;
  for (int turn = -3; turn < 21; ++turn) {
    for (std::size_t i = 0; i < kWorks; ++i) {
      const double ns = device_ns(device, stream, works[i], kLaunches);
      if (turn >= 0) times[i].push_back(ns);
    }
  }
  std::array<double, kWorks> medians{};
  for (std::size_t i = 0; i < kWorks; ++i) {
    std::nth_element(times[i].begin(), times[i].begin() + 10, times[i].end());
    medians[i] = times[i][10];
  }
  return medians;
}

}  // namespace ronde::test
