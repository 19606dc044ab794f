#include "ops/device/device_clock.h"

#include <algorithm>
#include <limits>

namespace ronde {
namespace {

constexpr std::size_t kMostPoints = 256;
constexpr std::int64_t kLongestNs = 1'000'000'000;  // in which clocks drift apart by little

}  // namespace

void DeviceClock::take(std::int64_t device_ns, std::int64_t queued_ns, std::int64_t seen_ns) {
  while (!bounds_.empty() &&
         (bounds_.size() == kMostPoints || bounds_.front().device_ns < device_ns - kLongestNs)) {
    bounds_.pop_front();
  }
  bounds_.push_back({device_ns, queued_ns - device_ns, seen_ns - device_ns});
}

std::int64_t DeviceClock::host_ns(std::int64_t device_ns) const {
  Bounds all{.least_ns = std::numeric_limits<std::int64_t>::min(),
             .most_ns = std::numeric_limits<std::int64_t>::max()};
  for (const Bounds& one : bounds_) {
    all.least_ns = std::max(all.least_ns, one.least_ns);
    all.most_ns = std::min(all.most_ns, one.most_ns);
  }
  return device_ns + std::min(all.least_ns, all.most_ns);
}

}  // namespace ronde
