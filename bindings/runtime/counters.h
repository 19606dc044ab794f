// The counters that a rank's timeline shows beside its events.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/engine/records/meter.h"
#include "timeline/recorder.h"

namespace ronde {

/// Samples the engine's meter: queue length, bytes in flight, throughput. Threads: any.
class CounterSampler {
 public:
  /// Reads `meter` from now on.
  void start(const Meter& meter) RONDE_EXCLUDES(mutex_);
  /// The meter is not read after this returns.
  void stop() RONDE_EXCLUDES(mutex_);
  /// The counters now; empty unless started, or within 20 ms of the last sample.
  std::vector<CounterSample> sample() RONDE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  const Meter* meter_ RONDE_GUARDED_BY(mutex_) = nullptr;
  std::uint64_t sampled_bytes_ RONDE_GUARDED_BY(mutex_) = 0;
  TimePoint sampled_ RONDE_GUARDED_BY(mutex_);
};

/// Measures this machine's codecs and memory copy: the references of a report. Takes milliseconds.
std::vector<CounterSample> measure_machine();

}  // namespace ronde
