#include "bindings/runtime/timeline.h"

#include <fmt/format.h>

#include <utility>

#include "bindings/runtime/diagnosis/dump_signal.h"
#include "bindings/runtime/timeline_sources.h"
#include "bindings/runtime/worker_history.h"
#include "core/base/log.h"

namespace ronde {

Timeline::Timeline(const Config& config, const Topology& topology, Recorder::Options sources)
    : config_(config), topology_(topology), sources_(std::move(sources)) {
  if (config_.nvtx) start_nvtx();
}

void Timeline::start_nvtx() {
  nvtx_ = create_nvtx_sink();
  if (nvtx_ == nullptr) log(LogLevel::kWarning, "RONDE_NVTX=1, but {}", nvtx_missing());
  switch_.set(nvtx_.get());
}

Status Timeline::begin() {
  const WorkerHistory* const history = WorkerHistory::of(config_);
  if (history != nullptr && !history->recording().empty()) return start(history->recording());
  const int number = diagnosis::timeline_signal_number(config_);
  if (number == 0) return config_.timeline.empty() ? Status() : start(config_.timeline);
  const std::string setting = fmt::format("RONDE_TIMELINE_SIGNAL={}", config_.timeline_signal);
  if (config_.timeline.empty()) {
    return {Code::kInvalidArgument, setting + " needs RONDE_TIMELINE, where the trace is to go"};
  }
  if (number != diagnosis::dump_signal_number(config_)) return {};
  return {Code::kInvalidArgument,
          setting +
              " is the signal that asks for dumps; allowed: the other of USR1 and USR2, or "
              "another RONDE_DUMP_SIGNAL"};
}

/// `recorder` null: events go to NVTX alone.
void Timeline::record_to(Recorder* recorder) {
  if (nvtx_ == nullptr) return switch_.set(recorder);
  nvtx_->pass_on_to(recorder);
}

/// Measuring the machine at the end of an epoch would make recoveries longer.
Recorder::Options Timeline::recorder_options() const {
  Recorder::Options options = sources_;
  options.about.job = config_.job_id;
  options.about.fusion_bytes = static_cast<std::int64_t>(config_.fusion_threshold_bytes);
  options.counters = [this] {
    const bool counts = sources_.counters && switch_.get() != nullptr;
    return counts ? sources_.counters() : std::vector<CounterSample>();
  };
  options.last_counters = measure_machine;
  options.chunk_bytes = config_.timeline_part_bytes;
  options.parts = config_.timeline_parts;
  if (WorkerHistory* history = WorkerHistory::of(config_)) {
    options.about.worker = config_.worker;
    options.about.epoch = config_.epoch;
    options.tracks = history->tracks();
    options.last_counters = [machine = history->machine(config_.epoch)] { return machine; };
  }
  return options;
}

Status Timeline::start(const std::string& path, bool mark_cycles) {
  const MutexLock lock(mutex_);
  if (recording_ && path == path_) return {};
  Recorder::Options options = recorder_options();
  options.mark_cycles = mark_cycles;
  RONDE_ASSIGN_OR_RETURN(auto recorder,
                         Recorder::open(path, topology_.rank, topology_, std::move(options)));
  if (const Status closed = close_recorder(); !closed.ok()) {
    log(LogLevel::kWarning, "the timeline before is incomplete: {}", closed.message());
  }
  recorders_.push_back(std::move(recorder));
  recording_ = true;
  path_ = path;
  paused_ = false;
  record_to(recorders_.back().get());
  WorkerHistory* const history = WorkerHistory::of(config_);
  if (history == nullptr) return {};
  history->record_to(path);
  const std::string epoch =
      fmt::format("epoch {}: rank {} of {}", config_.epoch, topology_.rank, topology_.size());
  recorders_.back()->begin(kEpochsTrack, epoch, {});
  return {};
}

Status Timeline::stop() {
  if (WorkerHistory* const history = WorkerHistory::of(config_)) history->record_to({});
  return end();
}

Status Timeline::end() {
  const MutexLock lock(mutex_);
  return close_recorder();
}

Status Timeline::close_recorder() {
  if (!recording_) return {};
  recording_ = false;
  record_to(nullptr);
  return recorders_.back()->close();
}

void Timeline::pause(bool paused) {
  const MutexLock lock(mutex_);
  if (!recording_ || paused == paused_) return;
  paused_ = paused;
  if (paused) {
    record_to(nullptr);
    recorders_.back()->pause();
  } else {
    recorders_.back()->resume();
    record_to(recorders_.back().get());
  }
}

void Timeline::toggle() {
  bool recording = false;
  bool paused = false;
  {
    const MutexLock lock(mutex_);
    recording = recording_;
    paused = paused_;
  }
  if (recording) return pause(!paused);
  const Status status = start(config_.timeline);
  if (!status.ok()) log(LogLevel::kWarning, "{}", status.message());
}

void Timeline::mark(std::string_view name) {
  if (EventSink* events = switch_.get()) events->instant(kMarksTrack, name);
}

void Timeline::begin_mark(std::string_view name) {
  if (EventSink* events = switch_.get()) events->begin(kMarksTrack, name, {});
}

void Timeline::end_mark() {
  if (EventSink* events = switch_.get()) events->end(kMarksTrack, {});
}

void Timeline::mark_commit(std::uint64_t step) {
  if (EventSink* events = switch_.get()) events->counter(kCommitCounter, static_cast<double>(step));
}

void Timeline::mark_step() {
  const auto steps = steps_.fetch_add(1) + 1;
  EventSink* events = switch_.get();
  if (events == nullptr) return;
  core_wait_.sample_step(*events);
  events->counter(kStepCounter, static_cast<double>(steps));
}

void Timeline::mark_pass(std::string_view name) {
  EventSink* events = switch_.get();
  if (events == nullptr) return;
  events->end(kPassesTrack, {});
  if (!name.empty()) events->begin(kPassesTrack, name, {});
}

}  // namespace ronde
