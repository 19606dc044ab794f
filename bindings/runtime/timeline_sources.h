// Sources of a rank's timeline beside events: clocks and counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/engine/records/meter.h"
#include "core/ports/topology.h"
#include "timeline/recording/recorder.h"

namespace ronde {

/// True on the ranks that compare their clock with rank 0's: one of each host but rank 0's.
bool compares_clocks(const Topology& topology);

/// Samples the engine's meter (queue length, bytes in flight, throughput) and the process's CPU
/// time. Threads: any.
class CounterSampler {
 public:
  /// `meter` outlives it.
  explicit CounterSampler(const Meter& meter) : meter_(meter) {}
  /// The counters now; empty within 20 ms of the last sample.
  std::vector<CounterSample> sample() RONDE_EXCLUDES(mutex_);

 private:
  const Meter& meter_;
  Mutex mutex_;
  std::uint64_t sampled_bytes_ RONDE_GUARDED_BY(mutex_) = 0;
  TimePoint sampled_ RONDE_GUARDED_BY(mutex_);
};

/// Measures this machine's codecs and memory copy: the references of a report. Takes milliseconds.
std::vector<CounterSample> measure_machine();

}  // namespace ronde
