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
#include "timeline/clock_sync.h"
#include "timeline/event_ring.h"
#include "timeline/host_clock.h"
#include "timeline/recording.h"
#include "timeline/trace_file.h"
#include "timeline/trace_format.h"

namespace ronde {

/// A counter's value at one moment.
struct CounterSample {
  std::string_view name;  ///< Of static storage.
  double value = 0;
};

/// Writes events from a thread of its own, at least every 50 ms; the file is a whole JSON array
/// after every write, so it can be read while the job runs and after kill -9. A disk that is full
/// ends the recording with one warning, never the job.
/// Threads: any for the events; open and close from one.
class Recorder : public EventSink {
 public:
  struct Options {
    std::string job;                ///< The same for all ranks of a job.
    std::string network_card = {};  ///< As RecordingInfo has them.
    int network_megabits = 0;
    bool mark_cycles = false;  ///< CYCLE_START, in a lane of its own, where a bundle begins.
    HostClock clock = {};
    /// Gives the comparisons of clocks that are to be written; may ask for more. Called by the
    /// writing thread, about every 50 ms. May be empty.
    std::function<std::vector<ClockSample>()> clock_samples = {};
    /// Gives the counters of the moment, whose changes are written. As clock_samples.
    std::function<std::vector<CounterSample>()> counters = {};
    /// Gives what is told once, where the recording ends. As counters; called by close().
    std::function<std::vector<CounterSample>()> last_counters = {};
    /// Most bytes that are fused, as RecordingInfo has them.
    std::int64_t fusion_bytes = -1;
    /// The recording goes on in a new file where one is larger; 0: never. The newest `parts` files
    /// are kept.
    std::size_t chunk_bytes = 0;
    int parts = 8;
  };

  /// Starts recording to rank_trace_path(path, rank). `topology` gives the host's name.
  /// Errors: kUnavailable naming the file and why.
  static Result<std::unique_ptr<Recorder>> open(const std::string& path, int rank,
                                                const Topology& topology, Options options);
  ~Recorder() override;

  void begin(std::string_view lane, std::string_view event, const EventArgs& args) override;
  void end(std::string_view lane, const EventArgs& args) override;
  void begin_all(std::span<const std::string_view> lanes, std::string_view event,
                 const EventArgs& args) override;
  void end_all(std::span<const std::string_view> lanes, const EventArgs& args) override;
  void span(std::string_view lane, std::string_view event, TimeSpan times,
            const EventArgs& args) override;
  void instant(std::string_view lane, std::string_view event) override;
  void counter(std::string_view name, double value) override;

  /// Says that no events come for a while: ends the spans that are open. Blocks: never.
  void pause();
  /// Says that they come again. Blocks: never.
  void resume();

  /// Writes what is left and ends the recording; events that come later are ignored. Idempotent.
  /// Errors: why the recording ended early, where it did.
  Status close();

  /// Events that were lost because they came faster than they could be written.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_.load(); }
  /// The file.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  Recorder(TraceFile file, std::string path, RecordingInfo info, Options options);
  void mark_cycle(std::uint64_t bundle) noexcept;
  void push(const Event& event) noexcept;
  void run();
  void write_last_counters();
  void append_counter(std::string& lines, const CounterSample& sample);
  void write_clock_samples();
  void write_counters();
  void begin_part();
  void flush();
  void write(std::string_view lines);
  bool wait_for_events();

  RecordingInfo info_;  // its part: writer thread only
  const std::string asked_path_;
  const std::string path_;
  const int owner_pid_;
  const Options options_;
  std::atomic<std::uint64_t> last_bundle_{0};
  EventRing ring_;
  std::atomic<bool> recording_{true};
  std::atomic<std::uint64_t> dropped_{0};
  TraceFile file_;  // writer thread only, as the next two
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
