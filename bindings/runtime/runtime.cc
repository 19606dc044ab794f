#include "bindings/runtime/runtime.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

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
#include "bindings/runtime/engine_options.h"
#include "bindings/runtime/groups/agreements.h"
#include "bindings/runtime/groups/devices.h"
#include "bindings/runtime/groups/group_factory.h"
#include "bindings/runtime/groups/process_set_table.h"
#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/lost_job.h"
#include "bindings/runtime/named_choices.h"
#include "bindings/runtime/operations.h"
#include "bindings/runtime/rank_place.h"
#include "bindings/runtime/submission_preparer.h"
#include "bindings/runtime/timeline.h"
#include "bindings/runtime/timeline_sources.h"
#include "bindings/runtime/version.h"
#include "bindings/runtime/worker_history.h"
#include "core/base/launchers.h"
#include "core/base/log.h"
#include "core/base/setting_names.h"
#include "core/engine/engine.h"
#include "ops/compression/residuals.h"
#include "ops/execution/payload_reducer.h"
#include "ops/kernels/factory.h"

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
    logger->log(static_cast<spdlog::level::level_enum>(of), "{}", line);
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

Runtime::Parts::Parts(const Config& the_config, DeviceLibraries libraries)
    : config(the_config),
      abort(std::make_shared<AbortToken>()),
      residuals(std::make_shared<ResidualStore>(config.residual_limit_bytes)),
      registry(std::make_unique<Registry>()),
      devices(std::make_unique<Devices>(std::move(libraries))),
      keys(std::make_unique<GroupKeys>()),
      sets(std::make_unique<ProcessSetTable>(config.size)) {}

Runtime::Parts::~Parts() = default;

Status Runtime::Parts::start(const JoinOptions& options) {
  install_log_sink(config.log_level, name_in_log(config));
  tell_of_join();
  note_failures();
  warn_of_environment(config);
  RONDE_RETURN_IF_ERROR(check_meeting_of_hosts(config, process_environment()));
  RONDE_RETURN_IF_ERROR(check_job_is_known(config, process_environment()));
  RONDE_RETURN_IF_ERROR(check_named_choices(config));
  RONDE_ASSIGN_OR_RETURN(JobCompression compression, job_compression(config.compression));
  config.compression = compression.spec;
  preparer = std::make_unique<SubmissionPreparer>(
      std::move(compression),
      SubmissionPreparer::Parts{
          .sets = *sets, .residuals = *residuals, .devices = *devices, .rank = config.rank});
  // A program between the launcher and this one may have closed the secret's descriptor.
  std::optional<FileDescriptor> secret;
  if (config.secret_fd >= 0) {
    RONDE_ASSIGN_OR_RETURN(secret, take_passed("RONDE_SECRET_FD", config.secret_fd));
    if (secret) config.secret_fd = secret->get();
  }
  kernels = create_kernels();
  payloads = create_payload_reducer(kernels);
  RONDE_ASSIGN_OR_RETURN(JobLink link,
                         connect_job(config, kVersion, abort, options.cancel, observers()));
  channel = std::move(link.channel);
  topology = channel->topology();
  make_observers(link.cards);
  start_engine();
  RONDE_RETURN_IF_ERROR(timeline->begin());
  RONDE_RETURN_IF_ERROR(start_diagnostics(options));
  register_builtin_backends(*registry, {config, kernels, std::move(link.tcp)});
  RONDE_RETURN_IF_ERROR(open_global_set(options));
  if (history != nullptr) history->on_connected();
  return {};
}

/// The time of a failure is when the job is declared broken.
void Runtime::Parts::note_failures() {
  history = WorkerHistory::of(config);
  if (history == nullptr) return;
  (void)abort->listen([known = history] { known->on_broken(); });
  connections = history->connections();
}

/// Connections end before the timeline.
ConnectionObservers Runtime::Parts::observers() {
  return {.counts = connections, .on_healed = [this](int rank, TimeSpan outage) {
            EventSink* const events = timeline->gate().get();
            if (events == nullptr) return;
            const std::string name = fmt::format("{} rank {}", kOutageSpan, rank);
            events->span(kConnectionsTrack, name, outage, {});
          }};
}

/// Reports the way to this epoch, once its first operation has ended.
void Runtime::Parts::report_passage() {
  const auto passage = history != nullptr ? history->take_passage() : std::nullopt;
  if (!passage) return;
  if (EventSink* events = timeline->gate().get()) show_passage(*passage, *events);
}

void Runtime::Parts::make_observers(const NetworkCards& cards) {
  clocks = std::make_unique<ClockComparison>(topology);
  counters = std::make_unique<CounterSampler>();
  diagnostics = std::make_unique<Diagnostics>();
  TimelineSources sources;
  sources.network_card = cards.names;
  sources.network_megabits = cards.megabits;
  sources.clock_samples = [this] { return clocks->take(); };
  sources.counters = [this] {
    report_passage();
    return counters->sample();
  };
  timeline = std::make_unique<Timeline>(config, topology, std::move(sources));
}

void Runtime::Parts::start_engine() {
  EngineOptions options = engine_options(config, topology, std::thread::hardware_concurrency());
  options.channel = channel.get();
  options.payloads = payloads.get();
  options.abort = abort;
  options.events = &timeline->gate();
  options.meter = history != nullptr ? &history->meter() : nullptr;
  options.on_stall = [this] { diagnostics->on_stall(); };
  options.on_left_behind = [this] { diagnostics->on_left_behind(); };
  options.on_clock = [this](auto message) { return clocks->on_message(message); };
  engine = std::make_unique<Engine>(std::move(options));
  clocks->start([this](int to, auto make) { engine->send_clock(to, std::move(make)); });
  counters->start(engine->meter());
}

Status Runtime::Parts::start_diagnostics(const JoinOptions& options) {
  DiagnosticsSources sources;
  sources.script = options.script;
  sources.abort = abort;
  sources.left_behind = [this] { return engine->left_behind(); };
  sources.flights = engine->flights().get();
  sources.meter = &engine->meter();
  sources.connections = connections;
  sources.steps = [this] {
    return timeline->steps() + (history != nullptr ? history->earlier_steps() : 0);
  };
  sources.report_passage = [this] { report_passage(); };
  sources.fail = [this](const Status& reason) { engine->fail(reason); };
  sources.on_timeline_signal = [this] { timeline->toggle(); };
  return diagnostics->start(config, topology, std::move(sources));
}

Carried Runtime::Parts::take_over(const Parts& last) {
  residuals->take_over(*last.residuals);
  return {last.tuning, residuals->most_steps(), residuals->count(), true};
}

void Runtime::Parts::report_lost_residuals(const Parts& last, const AgreedSettings& agreed) const {
  const int lost = last.config.size - agreed.old_members;
  if (topology.rank != 0 || agreed.carried.residuals == 0 || lost <= 0) return;
  log(LogLevel::kWarning,
      "the residuals of compression on {} of {} ranks are lost with them, of up to {} tensors each",
      lost, last.config.size, agreed.carried.residuals);
}

Status Runtime::Parts::open_global_set(const JoinOptions& options) {
  const Parts* const last = options.last == nullptr ? nullptr : options.last->parts_.get();
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
  RONDE_ASSIGN_OR_RETURN(auto executor,
                         groups->open_executor({.key = kGlobalSet, .ranks = everyone}, wait));
  engine->add_set(kGlobalSet, everyone, std::move(executor));
  return {};
}

void Runtime::Parts::make_groups(std::vector<SelectionRow> tuned) {
  const MakeExchange make_exchange = [this](std::uint64_t key, const std::vector<int>& ranks,
                                            const WaitOptions& options) {
    return std::make_unique<EngineExchange>(*engine, key, ranks, options);
  };
  groups = std::make_unique<GroupFactory>(GroupFactory::Parts{.config = config,
                                                              .topology = topology,
                                                              .state = state,
                                                              .registry = *registry,
                                                              .events = timeline->gate(),
                                                              .devices = *devices,
                                                              .keys = *keys,
                                                              .make_exchange = make_exchange,
                                                              .abort = abort,
                                                              .kernels = kernels,
                                                              .residuals = residuals,
                                                              .flights = engine->flights(),
                                                              .tuned = std::move(tuned)});
  const auto open_executor = [this](std::uint64_t key, const std::vector<int>& ranks,
                                    const WaitOptions& options,
                                    const NewSet& set) -> Result<std::unique_ptr<Executor>> {
    const GroupRequest request{.key = key, .ranks = ranks, .set = set.id, .set_name = set.name};
    RONDE_ASSIGN_OR_RETURN(auto executor, groups->open_executor(request, options));
    return std::unique_ptr<Executor>(std::move(executor));
  };
  process_sets = std::make_unique<ProcessSets>(ProcessSets::Parts{.state = state,
                                                                  .table = *sets,
                                                                  .keys = *keys,
                                                                  .engine = *engine,
                                                                  .rank = topology.rank,
                                                                  .make_exchange = make_exchange,
                                                                  .open_executor = open_executor});
  operations = std::make_unique<Operations>(Operations::Parts{.state = state,
                                                              .preparer = *preparer,
                                                              .engine = *engine,
                                                              .devices = *devices,
                                                              .timeline = *timeline,
                                                              .callers = diagnostics->callers(),
                                                              .size = topology.size()});
}

void Runtime::Parts::stop(std::string_view why) noexcept {
  if (!state.end()) return;
  if (engine) {
    engine->leave(now() + std::chrono::seconds(5), std::string(why));
    diagnostics->stop();
    clocks->stop();
    counters->stop();
    engine.reset();
  }
  if (timeline) {
    report_passage();
    if (history != nullptr) history->add_steps(timeline->steps());
    const Status status = timeline->end();
    if (!status.ok()) log(LogLevel::kWarning, "the timeline is incomplete: {}", status.message());
  }
  if (channel) channel->close();
}

Runtime::Runtime(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Runtime::~Runtime() {
  shutdown();
  if (parts_->state.forked()) (void)parts_.release();  // its threads do not exist in this process
}

std::string Runtime::metrics_text() const { return parts_->diagnostics->metrics_text(); }

Result<std::unique_ptr<Runtime>> Runtime::create(const Config& config, JoinOptions options) {
  return create(config, builtin_device_libraries(), std::move(options));
}

namespace {

/// Workers of an elastic job are ready when their epoch begins: only links can keep them apart.
Config with_start_limit(Config config) {
  const auto limit = 3 * config.link_timeout;
  if (config.epoch > 0 && limit.count() > 0) {
    config.start_timeout = std::min(config.start_timeout, limit);
  }
  return config;
}

Status no_thread(const std::system_error& error) {
  return {
      Code::kResourceExhausted,
      fmt::format("cannot start a thread: {}; raise the limit of processes (ulimit -u, pids.max "
                  "of a container) or of memory (ulimit -v)",
                  error.code().message())};
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::create(const Config& config, DeviceLibraries libraries,
                                                 JoinOptions options) {
  auto parts = std::make_unique<Parts>(with_start_limit(config), std::move(libraries));
  const auto start = [&]() -> Status {
    try {
      return parts->start(options);
    } catch (const std::system_error& error) {
      return no_thread(error);
    }
  };
  if (Status status = start(); !status.ok()) {
    if (const Status why = options.cancel.status(); !why.ok()) parts->abort->abort(why);
    parts->stop({});
    return status;
  }
  return std::unique_ptr<Runtime>(new Runtime(std::move(parts)));
}

void Runtime::interrupt() noexcept {
  if (!parts_->state.ended()) parts_->engine->interrupt();
}

}  // namespace ronde
