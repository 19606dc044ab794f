#include "bindings/runtime/clock_comparison.h"

#include <chrono>
#include <utility>

#include "timeline/recording.h"

namespace ronde {
namespace {

constexpr std::chrono::milliseconds kInterval{200};

/// True on the first rank of each host, except rank 0's host.
bool compares_clocks(const Topology& topology) {
  return !topology.same_host(0, topology.rank) &&
         topology.host_ranks(topology.rank).front() == topology.rank;
}

}  // namespace

ClockComparison::ClockComparison(const Topology& topology)
    : compares_(compares_clocks(topology)), sync_(this_boot_id(), steady_ns) {}

void ClockComparison::start(Send send) {
  const MutexLock lock(mutex_);
  send_ = std::move(send);
}

void ClockComparison::stop() {
  const MutexLock lock(mutex_);
  send_ = nullptr;
}

std::vector<ClockSample> ClockComparison::take() {
  const MutexLock lock(mutex_);
  if (compares_ && send_ && now() >= next_) {
    next_ = now() + kInterval;
    send_(0, [this] { return sync_.request(); });
  }
  return sync_.take();
}

}  // namespace ronde
