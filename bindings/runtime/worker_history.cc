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

void show_passage(const EpochPassage& passage, EventSink& events) {
  const auto begin = [&](std::string_view name, std::int64_t at_ns) {
    events.begin(kRecoveryTrack, name, {.at_ns = at_ns});
  };
  const auto end = [&](std::int64_t at_ns) { events.end(kRecoveryTrack, {.at_ns = at_ns}); };
  const auto part = [&](std::string_view name, std::int64_t from_ns, std::int64_t to_ns) {
    begin(name, from_ns);
    end(to_ns);
  };
  begin(passage.failed ? kRecoverySpan : kChangeSpan, passage.left_ns);
  part(kLeavePart, passage.left_ns, passage.ready_ns);
  part(kWaitPart, passage.ready_ns, passage.placed_ns);
  part(kConnectPart, passage.placed_ns, passage.connected_ns);
  part(kFirstOperationPart, passage.connected_ns, passage.ended_ns);
  end(passage.ended_ns);
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
  if (passage_.left_ns == 0) passage_.left_ns = steady_ns();
}

/// A failure while an epoch begins belongs to the passage that is under way.
void WorkerHistory::on_ready(bool failed) {
  const MutexLock lock(mutex_);
  passage_.failed |= failed;
  passage_.ready_ns = steady_ns();
  passage_.placed_ns = passage_.connected_ns = 0;
}

void WorkerHistory::on_placed() {
  const MutexLock lock(mutex_);
  passage_.placed_ns = steady_ns();
}

void WorkerHistory::on_connected() {
  const MutexLock lock(mutex_);
  meter_.forget_first();
  passage_.connected_ns = steady_ns();
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

std::optional<EpochPassage> WorkerHistory::take_passage() {
  const MutexLock lock(mutex_);
  const std::int64_t ended_ns = meter_.first_ended_ns();
  if (ended_ns == 0 || passage_.connected_ns == 0 || ended_ns < passage_.connected_ns) {
    return std::nullopt;
  }
  EpochPassage passage = std::exchange(passage_, {});
  if (passage.left_ns == 0) return std::nullopt;  // the worker's first epoch
  passage.ended_ns = ended_ns;
  (passage.failed ? recoveries_ : changes_).add(ended_ns - passage.left_ns);
  return passage;
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
