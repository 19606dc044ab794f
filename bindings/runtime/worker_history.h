// Facts that a worker of an elastic job keeps from epoch to epoch, for metrics and the timeline.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/settings/config.h"
#include "core/engine/records/meter.h"
#include "core/ports/connection_counts.h"
#include "core/ports/event_sink.h"
#include "timeline/recording/recorder.h"
#include "timeline/recording/trace_format.h"

namespace ronde {

/// A worker's transition from one epoch to the next, by the steady clock in nanoseconds. Later
/// moments are not earlier than those before.
struct EpochTransition {
  bool failed = false;            ///< The last epoch ended by a failure; else by a change.
  std::int64_t left_ns = 0;       ///< The failure was noticed, or the epoch was left.
  std::int64_t ready_ns = 0;      ///< The launcher was told that the worker is ready.
  std::int64_t placed_ns = 0;     ///< The launcher has answered.
  std::int64_t connected_ns = 0;  ///< All ranks of the epoch are connected.
  std::int64_t ended_ns = 0;      ///< The first operation has ended well.
};

/// Shows the transition as a span with its parts.
void show_transition(const EpochTransition& transition, EventSink& events);

/// Lives as long as the process, as the runtimes of the epochs come and go. Threads: any.
class WorkerHistory {
 public:
  /// The history of config.worker in this process; null if the job is not elastic.
  static WorkerHistory* of(const Config& config);
  /// The history of a worker in this process.
  static WorkerHistory& of_worker(int worker);

  /// The runtime of the current epoch has failed, or ends.
  void on_broken() RONDE_EXCLUDES(mutex_);
  /// The worker tells the launcher that it is ready. `failed`: its last epoch has failed.
  void on_ready(bool failed) RONDE_EXCLUDES(mutex_);
  /// The launcher has given it a place in an epoch.
  void on_placed() RONDE_EXCLUDES(mutex_);
  /// The ranks of the epoch are connected. No operation is under way.
  void on_connected() RONDE_EXCLUDES(mutex_);
  /// Adds the steps of an epoch that has ended.
  void add_steps(std::uint64_t steps) RONDE_EXCLUDES(mutex_);

  /// The timeline is written to this path, also in the next epochs; empty: it is not.
  void record_to(const std::string& path) RONDE_EXCLUDES(mutex_);
  [[nodiscard]] std::string recording() const RONDE_EXCLUDES(mutex_);

  /// The transition to this epoch, once its first operation has ended; each transition once.
  std::optional<EpochTransition> take_transition() RONDE_EXCLUDES(mutex_);

  /// Steps of the epochs that have ended.
  [[nodiscard]] std::uint64_t earlier_steps() const RONDE_EXCLUDES(mutex_);
  /// Durations of the transitions after failures, and after changes.
  [[nodiscard]] const DurationHistogram& recoveries() const noexcept { return recoveries_; }
  [[nodiscard]] const DurationHistogram& changes() const noexcept { return changes_; }
  /// Counts the operations of all epochs.
  [[nodiscard]] Meter& meter() noexcept { return meter_; }
  /// Counts the data connections of all epochs.
  [[nodiscard]] std::shared_ptr<ConnectionCounts> connections() const { return connections_; }
  /// The tracks of this worker's recordings.
  [[nodiscard]] std::shared_ptr<TrackNumbers> tracks() const { return tracks_; }
  /// The machine's speed, measured once: in the worker's first recording if that is of epoch 1.
  std::vector<CounterSample> machine(int epoch) RONDE_EXCLUDES(mutex_);

 private:
  const std::shared_ptr<TrackNumbers> tracks_ = std::make_shared<TrackNumbers>();
  const std::shared_ptr<ConnectionCounts> connections_ = std::make_shared<ConnectionCounts>();
  Meter meter_;
  DurationHistogram recoveries_;
  DurationHistogram changes_;
  mutable Mutex mutex_;
  EpochTransition transition_ RONDE_GUARDED_BY(mutex_);  // under way if left_ns is set
  std::uint64_t steps_ RONDE_GUARDED_BY(mutex_) = 0;
  std::string recording_ RONDE_GUARDED_BY(mutex_);
  std::optional<std::vector<CounterSample>> machine_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
