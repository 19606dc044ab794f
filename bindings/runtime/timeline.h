// The timeline of one rank: its recorders, NVTX ranges and the user's marks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"
#include "core/ports/event_sink.h"
#include "core/ports/topology.h"
#include "timeline/recording/machine_probe.h"
#include "timeline/recording/nvtx_sink.h"
#include "timeline/recording/recorder.h"

namespace ronde {

/// Writes this rank's events to a trace file while it is switched on. Threads: any.
class Timeline {
 public:
  /// Opens NVTX ranges where the setting asks for them. `config`, `topology` and objects that the
  /// functions of `sources` use outlive it. Of `sources` it takes what is recorded beside events:
  /// `about`, without job and worker, `clock_samples`, and `counters`, called only while recording.
  Timeline(const Config& config, const Topology& topology, Recorder::Options sources);
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Starts as the settings say: at once, at a signal (see toggle), or not.
  /// Errors: kInvalidArgument naming the setting; those of start().
  Status begin() RONDE_EXCLUDES(mutex_);
  /// Starts writing to `path`. `mark_cycles`: see Recorder::Options. Ends the timeline that is
  /// being written to another path, as Horovod does; leaves one to this path as it is.
  /// Errors: those of Recorder::open(), which leave the other timeline as it is.
  Status start(const std::string& path, bool mark_cycles = false) RONDE_EXCLUDES(mutex_);
  /// Ends the file. Nothing where none is written. Errors: those of Recorder::close().
  Status stop() RONDE_EXCLUDES(mutex_);
  /// The same at the end of the runtime. A worker of an elastic job goes on recording to the same
  /// path in its next epoch.
  Status end() RONDE_EXCLUDES(mutex_);
  /// Leaves out events until it is called with false. No operation may be under way.
  /// Nothing where no timeline is written.
  void pause(bool paused) RONDE_EXCLUDES(mutex_);
  /// Starts the timeline at the setting's path, else pauses it, else resumes it.
  void toggle() RONDE_EXCLUDES(mutex_);

  /// Marks one moment. Marks cost one branch while the timeline is off.
  void mark(std::string_view name);
  /// Opens a span; spans may nest within one thread.
  void begin_mark(std::string_view name);
  /// Closes the span that this thread opened last.
  void end_mark();
  /// Marks the step that an elastic job has committed: work since then is lost by a failure.
  void mark_commit(std::uint64_t step);
  /// Marks the end of a training step, once its operations are done.
  void mark_step();
  /// Ends the current part of training and begins another ("backward"); empty: begins none.
  void mark_pass(std::string_view name);
  /// Number of calls of mark_step().
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

  /// Engine and executors get the sink of their events from it.
  [[nodiscard]] const EventSwitch& events() const noexcept { return switch_; }

  /// Shows that the calling thread waits, while it lives. `name`: kWaitSpan or kMessageWaitSpan.
  class WaitSpan {
   public:
    WaitSpan(Timeline& timeline, std::string_view name)
        : timeline_(timeline), events_(timeline.switch_.get()) {
      if (events_ == nullptr) return;
      timeline_.core_wait_.sample(*events_);
      events_->begin(kWaitTrack, name, {});
    }
    ~WaitSpan() {
      if (events_ == nullptr) return;
      events_->end(kWaitTrack, {});
      timeline_.core_wait_.sample(*events_);
    }
    WaitSpan(const WaitSpan&) = delete;
    WaitSpan& operator=(const WaitSpan&) = delete;

   private:
    Timeline& timeline_;
    EventSink* const events_;
  };

 private:
  void start_nvtx();
  void record_to(Recorder* recorder) RONDE_REQUIRES(mutex_);
  [[nodiscard]] Recorder::Options recorder_options() const;
  Status close_recorder() RONDE_REQUIRES(mutex_);

  const Config& config_;
  const Topology& topology_;
  const Recorder::Options sources_;
  EventSwitch switch_;
  CoreWait core_wait_;
  std::atomic<std::uint64_t> steps_{0};
  std::unique_ptr<NvtxSink> nvtx_;  // null: not asked for, or not built
  Mutex mutex_;
  // All ever opened: a sink lives as long as the threads that may use it.
  std::vector<std::unique_ptr<Recorder>> recorders_ RONDE_GUARDED_BY(mutex_);
  bool recording_ RONDE_GUARDED_BY(mutex_) = false;
  std::string path_ RONDE_GUARDED_BY(mutex_);  // of the newest
  bool paused_ RONDE_GUARDED_BY(mutex_) = false;
};

}  // namespace ronde
