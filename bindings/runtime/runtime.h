// The composition root: joins a job and builds what its bindings use (C++, C, Python, command
// line).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/runtime/diagnosis/script_stacks.h"
#include "bindings/runtime/rank_place.h"
#include "bindings/runtime/runtime_state.h"
#include "core/base/abort.h"
#include "core/base/cancel_source.h"
#include "core/base/config.h"
#include "core/base/status.h"
#include "core/ports/connection_counts.h"
#include "core/ports/topology.h"

namespace ronde {

struct AgreedSettings;
struct Carried;
class ClockComparison;
class ControlChannel;
class CounterSampler;
struct DeviceLibraries;
class Devices;
class Diagnostics;
class Engine;
class GroupFactory;
class GroupKeys;
struct NetworkCards;
class Operations;
class ProcessSetTable;
class ProcessSets;
class PayloadReducer;
class ReduceKernels;
class Registry;
class ResidualStore;
struct SelectionRow;
class SubmissionPreparer;
class Timeline;
class WorkerHistory;

class Runtime;

/// How to join a job.
struct JoinOptions {
  CancelSource cancel;  ///< Ends the start early.
  /// This process's membership in the job before, which has been shut down. The new one keeps its
  /// tuning, and its residuals of compression; those of process sets wait for
  /// ResidualStore::rename_sets().
  const Runtime* last = nullptr;
  bool has_copies = false;  ///< Of residuals of ranks that are gone: no loss is reported.
  /// Dumps have its lines. Called until shutdown(), whose caller must not hold the interpreter's
  /// lock.
  diagnosis::ScriptSource script = {};
};

/// One membership of this process in one job. Two may live in one process.
/// Threads: any, but for shutdown, which must not race with other calls.
class Runtime {
 public:
  /// Joins the job that `config` describes. Collective over its ranks. Blocks up to
  /// config.start_timeout. Errors: kTimeout naming the ranks that did not come, kVersionMismatch,
  /// kInvalidArgument naming a setting, kUnavailable; those of `options.cancel`.
  static Result<std::unique_ptr<Runtime>> create(const Config& config, JoinOptions options = {});
  /// The same with other libraries for devices than this build's.
  static Result<std::unique_ptr<Runtime>> create(const Config& config, DeviceLibraries libraries,
                                                 JoinOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] const Config& config() const noexcept { return parts_->config; }
  [[nodiscard]] const Topology& topology() const noexcept { return parts_->topology; }
  [[nodiscard]] int rank() const noexcept { return topology().rank; }
  [[nodiscard]] int size() const noexcept { return topology().size(); }
  [[nodiscard]] RankPlace place() const { return rank_place(topology()); }

  // The parts live as long as the runtime; most of their calls fail after shutdown().
  [[nodiscard]] Operations& operations() noexcept { return *parts_->operations; }
  [[nodiscard]] ProcessSets& process_sets() noexcept { return *parts_->process_sets; }
  [[nodiscard]] GroupFactory& groups() noexcept { return *parts_->groups; }
  [[nodiscard]] Timeline& timeline() noexcept { return *parts_->timeline; }
  /// Saved and loaded for a checkpoint, while no operation is under way.
  [[nodiscard]] ResidualStore& residuals() noexcept { return *parts_->residuals; }

  /// This rank's metrics as Prometheus reads them; empty after shutdown().
  [[nodiscard]] std::string metrics_text() const;

  /// Waits for operations in flight to end or fail, leaves the job, stops all threads. Idempotent.
  /// `why` is sent to ranks that still wait for this one: UTF-8, its first 512 bytes.
  void shutdown(std::string_view why = {}) noexcept { parts_->stop(why); }

  /// Makes all waits of this runtime return kInterrupted, now. Safe in signal handlers.
  void interrupt() noexcept;

 private:
  /// In the order in which they are built; they end in the reverse order.
  struct Parts {
    Parts(const Config& config, DeviceLibraries libraries);
    ~Parts();
    Parts(const Parts&) = delete;
    Parts& operator=(const Parts&) = delete;
    /// Joins the job and opens the global set.
    Status start(const JoinOptions& options);
    void stop(std::string_view why) noexcept;
    void note_failures();
    ConnectionObservers observers();
    void report_passage();
    void make_observers(const NetworkCards& cards);
    void start_engine();
    Status start_diagnostics(const JoinOptions& options);
    Status open_global_set(const JoinOptions& options);
    /// Takes over the residuals of `last`.
    [[nodiscard]] Carried take_over(const Parts& last);
    void report_lost_residuals(const Parts& last, const AgreedSettings& agreed) const;
    void make_groups(std::vector<SelectionRow> tuned);

    Config config;
    RuntimeState state;
    WorkerHistory* history = nullptr;  ///< Outlives it; null if the job is not elastic.
    std::shared_ptr<ConnectionCounts> connections = std::make_shared<ConnectionCounts>();
    std::shared_ptr<AbortToken> abort;
    std::shared_ptr<const ReduceKernels> kernels;
    std::unique_ptr<const PayloadReducer> payloads;  // the engine uses it
    std::shared_ptr<ResidualStore> residuals;
    std::string tuning;  // the text of the tuning file that all ranks use; empty: none
    std::unique_ptr<ControlChannel> channel;
    Topology topology;
    std::unique_ptr<ClockComparison> clocks;
    std::unique_ptr<CounterSampler> counters;
    std::unique_ptr<Timeline> timeline;
    std::unique_ptr<Diagnostics> diagnostics;
    std::unique_ptr<Registry> registry;
    std::unique_ptr<Devices> devices;
    std::unique_ptr<GroupKeys> keys;
    std::unique_ptr<GroupFactory> groups;
    std::unique_ptr<ProcessSetTable> sets;
    std::unique_ptr<SubmissionPreparer> preparer;
    std::unique_ptr<Engine> engine;  // null once stopped
    std::unique_ptr<ProcessSets> process_sets;
    std::unique_ptr<Operations> operations;
  };
  explicit Runtime(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace ronde
