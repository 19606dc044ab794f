#include "bindings/runtime/worker_history.h"

#include <map>

#include "bindings/runtime/timeline_sources.h"
#include "timeline/recording/trace_head.h"

namespace ronde {
namespace {

struct Registry {
  Mutex mutex;
  std::map<int, std::unique_ptr<WorkerHistory>> histories RONDE_GUARDED_BY(mutex);
};

Registry& registry() {
  static auto* instance = new Registry;  // never destroyed: threads may use it during exit
  return *instance;
}

}  // namespace

void show_transition(const EpochTransition& transition, EventSink& events) {
  const auto begin = [&](std::string_view name, std::int64_t at_ns) {
    events.begin(kRecoveryTrack, name, {.at_ns = at_ns});
  };
  const auto end = [&](std::int64_t at_ns) { events.end(kRecoveryTrack, {.at_ns = at_ns}); };
  const auto part = [&](std::string_view name, std::int64_t from_ns, std::int64_t to_ns) {
    begin(name, from_ns);
    end(to_ns);
  };
  begin(transition.failed ? kRecoverySpan : kChangeSpan, transition.left_ns);
  part(kLeavePart, transition.left_ns, transition.ready_ns);
  part(kWaitPart, transition.ready_ns, transition.placed_ns);
  part(kConnectPart, transition.placed_ns, transition.connected_ns);
  part(kFirstOperationPart, transition.connected_ns, transition.ended_ns);
  end(transition.ended_ns);
}

WorkerHistory* WorkerHistory::of(const Config& config) {
  return config.epoch > 0 ? &of_worker(config.worker) : nullptr;
}

WorkerHistory& WorkerHistory::of_worker(int worker) {
  const MutexLock lock(registry().mutex);
  auto& history = registry().histories[worker];
  if (!history) history = std::make_unique<WorkerHistory>();
  return *history;
}

void WorkerHistory::on_broken() {
  const MutexLock lock(mutex_);
  if (transition_.left_ns == 0) transition_.left_ns = steady_ns();
}

/// A failure while an epoch begins belongs to the transition that is under way.
void WorkerHistory::on_ready(bool failed) {
  const MutexLock lock(mutex_);
  transition_.failed |= failed;
  transition_.ready_ns = steady_ns();
  transition_.placed_ns = transition_.connected_ns = 0;
}

void WorkerHistory::on_placed() {
  const MutexLock lock(mutex_);
  transition_.placed_ns = steady_ns();
}

void WorkerHistory::on_connected() {
  const MutexLock lock(mutex_);
  meter_.forget_first();
  transition_.connected_ns = steady_ns();
}

void WorkerHistory::add_steps(std::uint64_t steps) {
  const MutexLock lock(mutex_);
  steps_ += steps;
}

void WorkerHistory::record_to(const std::string& path) {
  const MutexLock lock(mutex_);
  recording_ = path;
}

std::string WorkerHistory::recording() const {
  const MutexLock lock(mutex_);
  return recording_;
}

std::optional<EpochTransition> WorkerHistory::take_transition() {
  const MutexLock lock(mutex_);
  const std::int64_t ended_ns = meter_.first_ended_ns();
  if (ended_ns == 0 || transition_.connected_ns == 0 || ended_ns < transition_.connected_ns) {
    return std::nullopt;
  }
  EpochTransition transition = std::exchange(transition_, {});
  if (transition.left_ns == 0) return std::nullopt;  // the worker's first epoch
  transition.ended_ns = ended_ns;
  (transition.failed ? recoveries_ : changes_).add(ended_ns - transition.left_ns);
  return transition;
}

std::uint64_t WorkerHistory::earlier_steps() const {
  const MutexLock lock(mutex_);
  return steps_;
}

std::vector<CounterSample> WorkerHistory::machine(int epoch) {
  const MutexLock lock(mutex_);
  if (!machine_) machine_ = epoch == 1 ? measure_machine() : std::vector<CounterSample>();
  return *machine_;
}

}  // namespace ronde
