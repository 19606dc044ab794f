#include "bindings/runtime/runtime.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "backends/builtin.h"
#include "backends/net/factory.h"
#include "backends/registry.h"
#include "bindings/descriptors/passed.h"
#include "bindings/exit_log/join_socket.h"
#include "bindings/runtime/diagnostics.h"
#include "bindings/runtime/groups/agreements.h"
#include "bindings/runtime/groups/devices.h"
#include "bindings/runtime/groups/group_factory.h"
#include "bindings/runtime/groups/group_opener.h"
#include "bindings/runtime/groups/process_set_table.h"
#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/groups/rank_place.h"
#include "bindings/runtime/groups/runtime_state.h"
#include "bindings/runtime/job_settings.h"
#include "bindings/runtime/operations.h"
#include "bindings/runtime/submission_preparer.h"
#include "bindings/runtime/timeline.h"
#include "bindings/runtime/timeline_sources.h"
#include "bindings/runtime/version.h"
#include "bindings/runtime/worker_history.h"
#include "core/base/abort.h"
#include "core/base/log.h"
#include "core/base/settings/launchers.h"
#include "core/base/settings/setting_names.h"
#include "core/engine/engine.h"
#include "core/ports/connection_counts.h"
#include "ops/compression/residuals.h"
#include "ops/execution/output_planner.h"
#include "ops/kernels/factory.h"
#include "timeline/recording/clock_sync.h"
#include "timeline/recording/trace_head.h"

namespace ronde {
namespace {

/// "0", or in an elastic job, whose ranks change, "worker 4 epoch 3".
std::string name_in_log(const Config& config) {
  if (config.epoch == 0) return fmt::to_string(config.rank);
  return fmt::format("worker {} epoch {}", config.worker, config.epoch);
}

/// Sends this process's log lines to spdlog, with the name of the runtime made last.
void install_log_sink(LogLevel level, const std::string& name) {
  auto logger =
      std::make_shared<spdlog::logger>("ronde", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(fmt::format("[%H:%M:%S.%e] ronde {} %l: %v", name));
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::trace);
  set_log(level, [logger](LogLevel of, std::string_view line) {
    logger->log(static_cast<spdlog::level::level_enum>(of), line);
  });
}

/// On rank 0 alone: launchers give all ranks the same variables.
void warn_of_environment(const Config& config) {
  if (config.rank != 0) return;
  const auto missing = describe_missing_launcher(process_environment());
  if (missing && config.job_id.empty()) log(LogLevel::kWarning, "{}", *missing);
  for (const std::string& sentence : describe_unknown_settings(process_variables())) {
    log(LogLevel::kWarning, "{}", sentence);
  }
}

GroupSpec group_of_all(const std::vector<int>& everyone, const Topology& topology) {
  GroupSpec group;
  group.ranks = everyone;
  group.rank = topology.rank;
  group.topology = &topology;
  return group;
}

}  // namespace

/// Holds the runtime's parts in the order in which they begin. They end in the reverse order.
struct Runtime::Impl {
  Impl(const Config& config, DeviceLibraries libraries);
  /// Joins the job and opens the global set.
  Status start(const JoinOptions& options);
  void stop(std::string_view why) noexcept;
  void note_failures();
  /// Counts the operations of the runtime, or of all epochs of an elastic job.
  Meter& meter() { return history != nullptr ? history->meter() : own_meter; }
  ConnectionObservers observers();
  void report_transition();
  void make_observers(const NetworkInterfaces& interfaces);
  void start_engine();
  Status make_injector();
  Status start_diagnostics(const JoinOptions& options);
  Status open_global_set(const JoinOptions& options);
  /// Takes over the residuals of `last`.
  [[nodiscard]] Carried take_over(const Impl& last);
  void report_lost_residuals(const Impl& last, const AgreedSettings& agreed) const;
  void make_groups(std::vector<SelectionRow> tuned);

  Config config;
  RuntimeState state;
  WorkerHistory* history = nullptr;  ///< Outlives it; null if the job is not elastic.
  Meter own_meter;
  std::shared_ptr<ConnectionCounts> connections = std::make_shared<ConnectionCounts>();
  std::shared_ptr<AbortToken> abort;
  PeerEnds peer_ends;                   // of drills alone
  std::shared_ptr<SumWitness> witness;  // null: nobody looks at sums
  std::shared_ptr<const ReduceKernels> kernels;
  std::unique_ptr<const PayloadReducer> payloads;  // the engine uses it
  std::shared_ptr<ResidualStore> residuals;
  std::string tuning;  // the text of the tuning file that all ranks use; empty: none
  std::unique_ptr<ControlChannel> channel;
  Topology topology;
  ClockSync clocks{this_boot_id(), steady_ns};
  std::unique_ptr<CounterSampler> counters;
  std::unique_ptr<Timeline> timeline;
  std::unique_ptr<Diagnostics> diagnostics;
  std::unique_ptr<Registry> registry;
  std::unique_ptr<Devices> devices;
  std::unique_ptr<GroupKeys> keys;
  std::unique_ptr<GroupFactory> groups;
  std::unique_ptr<ProcessSetTable> sets;
  std::unique_ptr<SubmissionPreparer> preparer;
  std::unique_ptr<const NonfinitePolicy> nonfinite;  // null: values are not looked at
  std::unique_ptr<Injector> injector;                // null: no fault is planted here
  std::unique_ptr<Engine> engine;                    // null once stopped
  std::unique_ptr<ProcessSets> process_sets;
  std::unique_ptr<Operations> operations;
};

Runtime::Impl::Impl(const Config& the_config, DeviceLibraries libraries)
    : config(the_config),
      abort(std::make_shared<AbortToken>()),
      residuals(std::make_shared<ResidualStore>(config.residual_limit_bytes)),
      registry(std::make_unique<Registry>()),
      devices(std::make_unique<Devices>(std::move(libraries))),
      keys(std::make_unique<GroupKeys>()),
      sets(std::make_unique<ProcessSetTable>(config.size)) {}

Status Runtime::Impl::start(const JoinOptions& options) {
  install_log_sink(config.log_level, name_in_log(config));
  tell_of_join();
  note_failures();
  warn_of_environment(config);
  RONDE_RETURN_IF_ERROR(check_rendezvous(config, process_environment()));
  RONDE_RETURN_IF_ERROR(check_job_is_known(config, process_environment()));
  RONDE_RETURN_IF_ERROR(check_named_choices(config));
  RONDE_ASSIGN_OR_RETURN(JobCompression compression, job_compression(config.compression));
  config.compression = compression.spec;
  preparer = std::make_unique<SubmissionPreparer>(std::move(compression), *sets, *residuals,
                                                  *devices, config.rank);
  // A program between the launcher and this one may have closed the secret's descriptor.
  std::optional<FileDescriptor> secret;
  if (config.secret_fd >= 0) {
    RONDE_ASSIGN_OR_RETURN(secret, take_passed("RONDE_SECRET_FD", config.secret_fd));
    if (secret) config.secret_fd = secret->get();
  }
  kernels = create_kernels();
  if (config.check_sums > 0 || !config.inject.empty()) {
    witness = std::make_shared<SumWitness>(std::move(kernels));
    kernels = witness;
  }
  payloads = create_payload_reducer(kernels);
  RONDE_ASSIGN_OR_RETURN(JobLink link, connect_job(config, {.version = kVersion,
                                                            .abort = abort,
                                                            .cancel = options.cancel,
                                                            .observers = observers()}));
  channel = std::move(link.channel);
  topology = channel->topology();
  make_observers(link.interfaces);
  RONDE_RETURN_IF_ERROR(make_injector());
  start_engine();
  RONDE_RETURN_IF_ERROR(timeline->begin());
  RONDE_RETURN_IF_ERROR(start_diagnostics(options));
  register_builtin_backends(*registry, {config, kernels, std::move(link.tcp)});
  RONDE_RETURN_IF_ERROR(open_global_set(options));
  if (history != nullptr) history->on_connected();
  return {};
}

/// The time of a failure is when the job is declared broken.
void Runtime::Impl::note_failures() {
  history = WorkerHistory::of(config);
  if (history == nullptr) return;
  (void)abort->listen([known = history] { known->on_broken(); });
  connections = history->connections();
}

/// Connections end before the timeline.
ConnectionObservers Runtime::Impl::observers() {
  const auto show = [this](int rank, TimeSpan outage) {
    EventSink* const events = timeline->events().get();
    if (events == nullptr) return;
    const std::string name = fmt::format("{} rank {}", kOutageSpan, rank);
    events->span(kConnectionsTrack, name, outage, {});
  };
  std::function<void(int, int)> note;
  if (!config.inject.empty()) note = [this](int rank, int fd) { peer_ends.add(rank, fd); };
  return {.counts = connections, .on_healed = show, .on_connected = std::move(note)};
}

/// Reports the transition to this epoch, once its first operation has ended.
void Runtime::Impl::report_transition() {
  const auto transition = history != nullptr ? history->take_transition() : std::nullopt;
  if (!transition) return;
  if (EventSink* events = timeline->events().get()) show_transition(*transition, *events);
}

void Runtime::Impl::make_observers(const NetworkInterfaces& interfaces) {
  counters = std::make_unique<CounterSampler>(meter());
  diagnostics = std::make_unique<Diagnostics>();
  Recorder::Options sources;
  sources.about.network_interface = interfaces.names;
  sources.about.network_megabits = interfaces.megabits;
  sources.clock_samples = [this] { return clocks.take(); };
  sources.counters = [this] {
    report_transition();
    return counters->sample();
  };
  timeline = std::make_unique<Timeline>(config, topology, std::move(sources));
}

void Runtime::Impl::start_engine() {
  EngineOptions options = engine_options(config, topology, std::thread::hardware_concurrency());
  options.channel = channel.get();
  options.payloads = payloads.get();
  options.abort = abort;
  options.events = &timeline->events();
  options.meter = &meter();
  if (config.check_nonfinite != "off") {
    nonfinite = std::make_unique<NonfinitePolicy>(
        NonfinitePolicy::Options{.fails = config.check_nonfinite == "fail",
                                 .steps = [this] { return timeline->steps(); },
                                 .events = &timeline->events()});
  }
  options.nonfinite = nonfinite.get();
  options.on_stall = [this] { diagnostics->on_stall(); };
  options.on_left_behind = [this] { diagnostics->on_left_behind(); };
  options.on_clock = [this](auto message) { return clocks.on_message(message); };
  engine = std::make_unique<Engine>(std::move(options));
  if (compares_clocks(topology)) {
    clocks.start([this](int to, auto make) { engine->send_clock(to, std::move(make)); });
  }
}

/// In an elastic job faults are planted in its first epoch alone.
Status Runtime::Impl::make_injector() {
  RONDE_ASSIGN_OR_RETURN(auto faults, asked_injections(config.inject));
  if (faults.empty() || config.epoch > 1) return {};
  for (const Injection& fault : faults) {
    if (std::max(fault.rank, fault.peer) < topology.size()) continue;
    return {Code::kInvalidArgument,
            fmt::format("--inject {}: allowed are ranks 0 to {}", fault.text, topology.size() - 1)};
  }
  injector =
      std::make_unique<Injector>(Injector::Options{.faults = std::move(faults),
                                                   .rank = topology.rank,
                                                   .steps = [this] { return timeline->steps(); },
                                                   .events = &timeline->events(),
                                                   .kernels = kernels.get(),
                                                   .peers = &peer_ends,
                                                   .sums = witness.get()});
  return {};
}

Status Runtime::Impl::start_diagnostics(const JoinOptions& options) {
  DiagnosticsSources sources;
  sources.service.script = options.script;
  sources.service.abort = abort;
  sources.service.left_behind = [this] { return engine->left_behind(); };
  sources.service.records = engine->records().get();
  sources.service.fail = [this](const Status& reason) { engine->fail(reason); };
  sources.service.on_timeline = [this] { timeline->toggle(); };
  sources.meter = &meter();
  sources.connections = connections;
  sources.steps = [this] {
    return timeline->steps() + (history != nullptr ? history->earlier_steps() : 0);
  };
  sources.report_transition = [this] { report_transition(); };
  return diagnostics->start(config, topology, std::move(sources));
}

Carried Runtime::Impl::take_over(const Impl& last) {
  residuals->take_over(*last.residuals);
  return {last.tuning, residuals->most_steps(), residuals->count(), true};
}

void Runtime::Impl::report_lost_residuals(const Impl& last, const AgreedSettings& agreed) const {
  const int lost = last.config.size - agreed.old_members;
  if (topology.rank != 0 || agreed.carried.residuals == 0 || lost <= 0) return;
  log(LogLevel::kWarning,
      "the residuals of compression on {} of {} ranks are lost with them, of up to {} tensors each",
      lost, last.config.size, agreed.carried.residuals);
}

Status Runtime::Impl::open_global_set(const JoinOptions& options) {
  const Impl* const last = options.last == nullptr ? nullptr : options.last->impl_.get();
  WaitOptions wait;
  wait.interrupt = options.cancel.check;
  wait.deadline = now() + config.start_timeout;
  RONDE_ASSIGN_OR_RETURN(const std::vector<int> everyone, sets->ranks(kGlobalSet));
  EngineExchange exchange(*engine, kSettingsKey, everyone, wait);
  JoiningRank mine{.rank = config.rank,
                   .carried = last == nullptr ? Carried() : take_over(*last),
                   .backend = check_device_backend(*devices, *registry, config.backend,
                                                   group_of_all(everyone, topology))};
  RONDE_ASSIGN_OR_RETURN(AgreedSettings agreed,
                         agree_on_settings(config, std::move(mine), exchange));
  residuals->go_to_step(agreed.carried.steps);
  if (last != nullptr && !options.has_copies) report_lost_residuals(*last, agreed);
  tuning = std::move(agreed.carried.tuning);
  make_groups(std::move(agreed.tuned));
  RONDE_ASSIGN_OR_RETURN(
      auto executor,
      groups->open_executor(
          {.key = kGlobalSet, .ranks = everyone, .finds_nonfinite = nonfinite != nullptr}, wait));
  engine->add_set(kGlobalSet, everyone, std::move(executor));
  return {};
}

void Runtime::Impl::make_groups(std::vector<SelectionRow> tuned) {
  std::function<void(const Bundle&, const Work&)> on_work;
  std::function<void(const Bundle&, const Work&, bool ran)> on_result;
  if (injector) {
    on_work = [this](const Bundle& bundle, const Work& work) { injector->during(bundle, work); };
    on_result = [this](const Bundle& bundle, const Work& work, bool ran) {
      ran ? injector->after(bundle, work) : injector->after_failure(bundle, work);
    };
  }
  groups = std::make_unique<GroupFactory>(
      GroupFactory::Options{.config = config,
                            .topology = topology,
                            .state = state,
                            .registry = *registry,
                            .events = timeline->events(),
                            .devices = *devices,
                            .keys = *keys,
                            .make_exchange = exchanges_over(*engine),
                            .abort = abort,
                            .kernels = kernels,
                            .residuals = residuals,
                            .records = engine->records(),
                            .witness = witness,
                            .on_work = std::move(on_work),
                            .on_result = std::move(on_result),
                            .check_mean = {.steps = [this] { return timeline->steps(); },
                                           .events = &timeline->events(),
                                           .totals = &meter().means},
                            .tuned = std::move(tuned)});
  const auto open_executor = [this](std::uint64_t key, const std::vector<int>& ranks,
                                    const WaitOptions& options, const NewSet& set) {
    return groups->open_executor({.key = key,
                                  .ranks = ranks,
                                  .set = set.id,
                                  .set_name = set.name,
                                  .finds_nonfinite = nonfinite != nullptr},
                                 options);
  };
  process_sets = std::make_unique<ProcessSets>(state, *sets, *keys, *engine, open_executor);
  operations =
      std::make_unique<Operations>(state, *preparer, *engine, *devices, *timeline,
                                   diagnostics->callers(), nonfinite.get(), injector.get());
}

void Runtime::Impl::stop(std::string_view why) noexcept {
  if (!state.end()) return;
  if (injector) injector->report_unplanted();
  if (engine) {
    engine->leave(now() + std::chrono::seconds(5), std::string(why));
    diagnostics->stop();
    clocks.stop();
    engine.reset();
  }
  if (timeline) {
    report_transition();
    if (history != nullptr) history->add_steps(timeline->steps());
    const Status status = timeline->end();
    if (!status.ok()) log(LogLevel::kWarning, "the timeline is incomplete: {}", status.message());
  }
  if (channel) channel->close();
}

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Runtime::~Runtime() {
  shutdown();
  if (impl_->state.forked()) (void)impl_.release();  // its threads do not exist in this process
}

Injector* Runtime::injector() noexcept { return impl_->injector.get(); }
const Config& Runtime::config() const noexcept { return impl_->config; }
const Topology& Runtime::topology() const noexcept { return impl_->topology; }
Operations& Runtime::operations() noexcept { return *impl_->operations; }
ProcessSets& Runtime::process_sets() noexcept { return *impl_->process_sets; }
GroupFactory& Runtime::groups() noexcept { return *impl_->groups; }
Timeline& Runtime::timeline() noexcept { return *impl_->timeline; }
ResidualStore& Runtime::residuals() noexcept { return *impl_->residuals; }
void Runtime::shutdown(std::string_view why) noexcept { impl_->stop(why); }

std::string Runtime::metrics_text() const { return impl_->diagnostics->metrics_text(); }

Result<std::unique_ptr<Runtime>> Runtime::create(const Config& config, JoinOptions options) {
  return create(config, builtin_device_libraries(), std::move(options));
}

namespace {

/// Workers of an elastic job are ready when their epoch begins: only the network can delay them.
Config with_start_limit(Config config) {
  const auto limit = 3 * config.link_timeout;
  if (config.epoch > 0 && limit.count() > 0) {
    config.start_timeout = std::min(config.start_timeout, limit);
  }
  return config;
}

Status not_started(const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again) {
    return {Code::kUnavailable, fmt::format("the job cannot be joined: {}", error.what())};
  }
  return {
      Code::kResourceExhausted,
      fmt::format("cannot start a thread: {}; raise the limit of processes (ulimit -u, pids.max "
                  "of a container) or of memory (ulimit -v)",
                  error.code().message())};
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::create(const Config& config, DeviceLibraries libraries,
                                                 JoinOptions options) {
  auto impl = std::make_unique<Impl>(with_start_limit(config), std::move(libraries));
  const auto start = [&]() -> Status {
    try {
      return impl->start(options);
    } catch (const std::system_error& error) {
      return not_started(error);
    }
  };
  if (Status status = start(); !status.ok()) {
    if (const Status why = options.cancel.status(); !why.ok()) impl->abort->abort(why);
    impl->stop({});
    return status;
  }
  return std::unique_ptr<Runtime>(new Runtime(std::move(impl)));
}

void Runtime::interrupt() noexcept {
  if (!impl_->state.ended()) impl_->engine->interrupt();
}

}  // namespace ronde
