// What a Runtime is made of, in the order in which it is built; it ends in the reverse order.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/net/factory.h"
#include "backends/registry.h"
#include "bindings/runtime/devices.h"
#include "bindings/runtime/diagnosis/service.h"
#include "bindings/runtime/fork_mark.h"
#include "bindings/runtime/group_opener.h"
#include "bindings/runtime/metrics/server.h"
#include "bindings/runtime/process_sets.h"
#include "bindings/runtime/runtime.h"
#include "core/base/mutex.h"
#include "core/ports/event_sink.h"
#include "core/ports/reduce_kernels.h"
#include "ops/compression/residuals.h"
#include "ops/execution/executor.h"
#include "timeline/clock_sync.h"
#include "timeline/core_wait.h"
#include "timeline/nvtx_sink.h"
#include "timeline/recorder.h"
#include "timeline/recording.h"

namespace ronde {

class Runtime::Impl {
 public:
  Impl(Config config, DeviceLibraries libraries);

  /// Joins the job and opens the global set.
  Status start();
  /// Opens data plane and executor of `ranks`; collective over them.
  /// `algorithm`: in place of the setting, where given.
  Result<std::unique_ptr<CollectiveExecutor>> open_executor(std::uint64_t key,
                                                            const std::vector<int>& ranks,
                                                            const WaitOptions& options,
                                                            SetId set = kGlobalSet,
                                                            const std::string& algorithm = {});
  /// Opens this rank's device for a group of that spec; collective over it.
  Result<DeviceParts> open_device(int index, GroupSpec spec, const std::string& algorithm);
  Status start_diagnosis();
  /// Serves metrics where a port is set. A port that is taken costs a warning, not the job.
  /// Errors: kInvalidArgument naming the setting.
  Status start_metrics();
  /// Says once what data planes could not be opened.
  void say_passed_over(const OpenedGroup& opened) RONDE_EXCLUDES(mutex_);
  GroupSpec group_spec(std::uint64_t key, const std::vector<int>& ranks) const;
  /// Waits until all ranks of the job ask for the same change of the process sets ("add 0, 1").
  /// Errors: kMismatch naming two ranks and what they asked for.
  Status agree(const std::string& change, const WaitOptions& options);
  /// Gives all ranks of the job each other's values.
  Result<std::vector<std::string>> share(const std::string& mine, const WaitOptions& options);
  /// Gives all ranks of the job the first error of any.
  Status share_outcome(const Status& mine, const WaitOptions& options);
  /// Gives all `ranks`, which `exchange` is among, the first error of any.
  static Status first_error(Exchange& exchange, const std::vector<int>& ranks, const Status& mine);
  /// Agrees with `ranks` on an id for a set of theirs that none of them has used.
  /// Errors: kMismatch where their names for it differ.
  Result<SetId> agree_on_id(Exchange& exchange, const std::vector<int>& ranks,
                            const std::string& name) const;
  /// The key of the exchanges that prepare what raw_key() names.
  static std::uint64_t agreement_key(std::uint64_t raw_key) noexcept;
  /// Ok, or kNotInitialized: after stop(), or in a forked child.
  [[nodiscard]] Status usable() const;
  Status check(const Submission& submission, SetId set) const;
  /// Writes a request's compression as all ranks write it: its own, "none", or the job's.
  /// Errors: kInvalidArgument where it is unknown, or not defined for the request.
  Status settle_compression(Request& request, SetId set) const;
  /// Makes a submission of tensors in device memory ready for the engine: records what they wait
  /// for, and says where outputs come from. Nothing for others.
  Status prepare_device(Submission& submission, SetId set);
  /// The key of the next raw group of `ranks`: counted per list of ranks, so alike on its members.
  std::uint64_t raw_key(const std::vector<int>& ranks) RONDE_EXCLUDES(mutex_);
  Status start_timeline(const std::string& path, bool mark_cycles) RONDE_EXCLUDES(mutex_);
  Status stop_timeline() RONDE_EXCLUDES(mutex_);
  void pause_timeline(bool paused) RONDE_EXCLUDES(mutex_);
  /// Starts the timeline, or pauses it, or lets it go on.
  void toggle_timeline() RONDE_EXCLUDES(mutex_);
  /// The timeline from the start, or for the signal. Errors: kInvalidArgument naming the setting.
  Status prepare_timeline();
  void start_nvtx();
  Status settle_own_compression();
  void record_to(Recorder* recorder) RONDE_REQUIRES(mutex_);
  /// Counters for the timeline. Threads: one.
  std::vector<CounterSample> sample_counters() RONDE_EXCLUDES(clock_mutex_);
  void stop(std::string_view why = {}) noexcept;
  /// The comparisons of this host's clock with rank 0's host's since the last call; asks for the
  /// next now and then. One rank of each host compares. Threads: one.
  std::vector<ClockSample> compare_clocks() RONDE_EXCLUDES(clock_mutex_);

  // Const once started.
  Config config;
  std::vector<SelectionRow> tuned;  // rank 0's
  std::shared_ptr<AbortToken> abort = std::make_shared<AbortToken>();
  std::shared_ptr<const ReduceKernels> kernels;
  std::shared_ptr<ResidualStore> residuals;
  const std::shared_ptr<const ForkMark> mark = std::make_shared<ForkMark>();
  // Safe by themselves.
  EventGate events;
  std::unique_ptr<ControlChannel> channel;
  Topology topology;
  NetworkCard card;
  Registry registry;
  ProcessSets sets;
  Devices devices;
  std::atomic<bool> stopped{false};
  std::atomic<int> set_changes{0};
  std::atomic<int> shares{0};
  std::atomic<std::uint64_t> steps{0};
  CoreWait core_wait;
  diagnosis::Bell bell;
  diagnosis::WaitingCallers callers;
  ClockSync clock_sync{this_boot_id(), steady_ns};
  std::unique_ptr<Engine> engine;
  std::unique_ptr<diagnosis::Service> diagnosis;
  std::unique_ptr<metrics::Server> metrics;

 private:
  Mutex clock_mutex_;
  bool comparing_ RONDE_GUARDED_BY(clock_mutex_) = false;
  bool counting_ RONDE_GUARDED_BY(clock_mutex_) = false;  // the engine is there
  TimePoint next_comparison_ RONDE_GUARDED_BY(clock_mutex_);
  std::uint64_t sampled_bytes_ RONDE_GUARDED_BY(clock_mutex_) = 0;
  TimePoint sampled_ RONDE_GUARDED_BY(clock_mutex_);
  std::int64_t fewest_compressed_ = 0;  // elements, by the job's own compression
  Mutex mutex_;
  std::set<std::string> passed_over_ RONDE_GUARDED_BY(mutex_);  // said
  std::map<std::vector<int>, int> raw_groups_ RONDE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Recorder>> recorders_ RONDE_GUARDED_BY(mutex_);  // all ever opened
  bool recording_ RONDE_GUARDED_BY(mutex_) = false;
  bool hears_ RONDE_GUARDED_BY(mutex_) = false;  // the last of them, of what happens
  std::unique_ptr<NvtxSink> nvtx_;               // null: not asked for, or not built
};

}  // namespace ronde
