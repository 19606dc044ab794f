// Sources of a rank's timeline beside events: clocks and counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/engine/records/meter.h"
#include "core/ports/topology.h"
#include "timeline/recording/clock_sync.h"
#include "timeline/recording/recorder.h"

namespace ronde {

/// Exchanges clock messages with rank 0 every 200 ms, as long as samples are taken.
/// One rank of each host compares; the ranks of rank 0's host do not. Threads: any.
class ClockComparison {
 public:
  /// Sends `to` the message that `make` returns at the moment of sending: Engine::send_clock().
  using Send = std::function<void(int to, std::function<std::vector<std::byte>()> make)>;

  explicit ClockComparison(const Topology& topology);

  /// Messages may be sent from now on.
  void start(Send send) RONDE_EXCLUDES(mutex_);
  /// `send` is not called after this returns.
  void stop() RONDE_EXCLUDES(mutex_);
  /// Takes a clock message of another rank; returns the reply to a request.
  std::optional<std::vector<std::byte>> on_message(std::span<const std::byte> message) {
    return sync_.on_message(message);
  }
  /// Returns the comparisons since the last call; requests the next one when it is due.
  std::vector<ClockSample> take() RONDE_EXCLUDES(mutex_);

 private:
  const bool compares_;
  ClockSync sync_;
  Mutex mutex_;
  Send send_ RONDE_GUARDED_BY(mutex_);
  TimePoint next_ RONDE_GUARDED_BY(mutex_);
};

/// Samples the engine's meter (queue length, bytes in flight, throughput) and the process's CPU
/// time. Threads: any.
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
