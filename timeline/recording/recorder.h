// The event sink that streams one rank's events to a Chrome trace.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/ports/event_sink.h"
#include "core/ports/topology.h"
#include "timeline/recording/clock_sync.h"
#include "timeline/recording/event_ring.h"
#include "timeline/recording/trace_file.h"
#include "timeline/recording/trace_format.h"
#include "timeline/recording/trace_head.h"

namespace ronde {

/// A counter's value at one moment.
struct CounterSample {
  std::string_view name;  ///< Static storage.
  double value = 0;
};

/// Writes one rank's events in a thread of its own, at least every 50 ms. After every write the
/// file is a whole JSON array, readable while the job runs and after kill -9. A full disk ends the
/// recording with a warning; the job goes on. Threads: any for events; one for open and close.
class Recorder : public EventSink {
 public:
  struct Options {
    /// The caller sets job, worker, epoch, network and fusion. open() adds rank, host, clocks and
    /// part.
    RecordingInfo about = {};
    std::shared_ptr<TrackNumbers> tracks = {};  ///< As TraceFormatter has it.
    bool mark_cycles = false;  ///< Write CYCLE_START on a track of its own when a bundle begins.
    /// Returns comparisons of clocks to write; may start new ones. The writing thread calls it
    /// about every 50 ms. May be empty.
    std::function<std::vector<ClockSample>()> clock_samples = {};
    /// Returns the current counters, whose changes are written. Called like clock_samples.
    std::function<std::vector<CounterSample>()> counters = {};
    /// Returns the counters to write once at the end. close() calls it.
    std::function<std::vector<CounterSample>()> last_counters = {};
    /// Start a new file when one exceeds this; 0: never. The newest `parts` files are kept.
    std::size_t chunk_bytes = 0;
    int parts = 8;
  };

  /// Starts recording to rank_trace_path(path, rank), or to worker_trace_path() in an elastic job.
  /// `topology` has the host's name.
  /// Errors: kUnavailable naming the file and why.
  static Result<std::unique_ptr<Recorder>> open(const std::string& path, int rank,
                                                const Topology& topology, Options options);
  ~Recorder() override;

  void begin(std::string_view track, std::string_view event, const EventArgs& args) override;
  void end(std::string_view track, const EventArgs& args) override;
  void begin_all(std::span<const std::string_view> tracks, std::string_view event,
                 const EventArgs& args) override;
  void end_all(std::span<const std::string_view> tracks, const EventArgs& args) override;
  void span(std::string_view track, std::string_view event, TimeSpan times,
            const EventArgs& args) override;
  void instant(std::string_view track, std::string_view event) override;
  void counter(std::string_view name, double value) override;

  /// Begins a pause without events: ends the open spans. Blocks: never.
  void pause();
  /// Ends the pause. Blocks: never.
  void resume();

  /// Writes the remaining events and ends the recording; later events are ignored. Idempotent.
  /// Errors: why the recording ended early, if it did.
  Status close();

  /// Number of events lost because the writer could not keep up.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_.load(); }
  /// Path of the file.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  Recorder(TraceFile file, std::string own_path, RecordingInfo info, Options options);
  void mark_cycle(std::uint64_t bundle) noexcept;
  void push(const Event& event) noexcept;
  void run();
  void write_last_counters();
  void end_epoch();
  void append_counter(std::string& lines, const CounterSample& sample);
  void write_clock_samples();
  void write_counters();
  void begin_part();
  void flush();
  void write(std::string_view lines);
  bool wait_for_events();

  RecordingInfo info_;  // info_.part: writer thread only
  const std::string path_;
  const int owner_pid_;
  const Options options_;
  std::atomic<std::uint64_t> last_bundle_{0};
  EventRing ring_;
  std::atomic<bool> recording_{true};
  std::atomic<std::uint64_t> dropped_{0};
  TraceFile file_;  // writer thread only, like the next two
  TraceFormatter formatter_;
  std::uint64_t told_dropped_ = 0;
  std::map<std::string, double, std::less<>> told_counters_;  // writer thread only
  Mutex mutex_;
  CondVar wake_;
  bool closing_ RONDE_GUARDED_BY(mutex_) = false;
  Status status_ RONDE_GUARDED_BY(mutex_);
  std::thread writer_;
};

}  // namespace ronde
