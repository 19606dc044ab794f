#include "bindings/runtime/runtime_impl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <thread>
#include <utility>

#include "backends/builtin.h"
#include "backends/net/factory.h"
#include "bindings/runtime/log_sink.h"
#include "bindings/runtime/shared_settings.h"
#include "bindings/runtime/version.h"
#include "core/base/log.h"
#include "core/base/setting_names.h"
#include "core/protocol/several_devices.h"
#include "ops/compression/spec.h"
#include "ops/kernels/factory.h"

namespace ronde {
namespace {

constexpr std::uint64_t kRawKeys = std::uint64_t{1} << 63;
constexpr std::uint64_t kShareKeys = std::uint64_t{1} << 62;
constexpr std::uint64_t kSettingsKey = std::uint64_t{1} << 60;
constexpr std::uint64_t kDeviceKeys = 0x6465'7669'6365;  // unlike the number of any set

/// Whether this rank is the one of its host that compares clocks with rank 0.
bool compares_clocks(const Topology& topology) {
  return !topology.same_host(0, topology.rank) &&
         topology.host_ranks(topology.rank).front() == topology.rank;
}

EngineOptions engine_options(const Config& config, ControlChannel& channel,
                             std::shared_ptr<AbortToken> abort, const EventGate& events,
                             diagnosis::Bell& bell, ClockHandler on_clock) {
  const Topology& topology = channel.topology();
  const std::size_t local_ranks = topology.host_ranks(topology.rank).size();
  EngineOptions options;
  options.channel = &channel;
  options.abort = std::move(abort);
  options.fusion_threshold_bytes = config.fusion_threshold_bytes;
  options.partition_bytes = config.partition_bytes;
  options.inline_bytes = config.inline_bytes;
  options.cache_capacity = config.cache_capacity;
  // Where ranks outnumber cores, a spinning rank keeps the one it waits for from running.
  const bool crowded = local_ranks > std::thread::hardware_concurrency();
  options.spin = crowded ? std::chrono::microseconds(0) : config.spin;
  options.stall_warning = config.stall_warning;
  options.stall_error = config.stall_error;
  options.events = &events;
  options.on_stall = [&bell] { bell.ring(diagnosis::Reason::kStall); };
  options.on_left_behind = [&bell] { bell.ring(diagnosis::Reason::kFailure); };
  options.on_clock = std::move(on_clock);
  return options;
}

/// As equal compressions are written alike; "none" becomes empty.
Result<std::string> canonical_compression(const std::string& text) {
  if (text.empty() || text == "none") return std::string();
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, parse_compression(text));
  return to_string(spec);
}

/// What the job's own compression is for: large floating tensors in host memory that are no biases
/// or norms.
bool worth_compressing(const Request& request, std::int64_t fewest) {
  if (request.device.kind != DeviceKind::kCpu) return false;
  for (const TensorMeta& tensor : request.tensors) {
    if (tensor.shape.size() < 2 || element_count(tensor.shape) < fewest) return false;
    if (!check_compressible(request.kind, tensor.dtype, request.op).ok()) return false;
  }
  return !request.tensors.empty();
}

/// Once for a job: by rank 0, as launchers give all ranks the same variables.
void warn_of_unknown_settings() {
  for (const std::string& sentence : describe_unknown_settings(process_variable_names())) {
    log(LogLevel::kWarning, "{}", sentence);
  }
}

}  // namespace

Runtime::Impl::Impl(Config the_config, DeviceLibraries libraries)
    : config(std::move(the_config)),
      residuals(std::make_shared<ResidualStore>(config.residual_limit_bytes)),
      sets(config.size),
      devices(std::move(libraries)) {}

Status Runtime::Impl::settle_own_compression() {
  if (config.compression == "none") config.compression.clear();
  if (config.compression.empty()) return {};
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, training_compression(config.compression));
  config.compression = to_string(spec);
  fewest_compressed_ = static_cast<std::int64_t>(fewest_elements(spec));
  return {};
}

Status Runtime::Impl::start() {
  install_log_sink(config.log_level, config.rank);
  if (config.rank == 0) warn_of_unknown_settings();
  RONDE_RETURN_IF_ERROR(settle_own_compression());
  kernels = create_kernels();
  RONDE_ASSIGN_OR_RETURN(JobLink link, join_job(config, kVersion, abort));
  channel = std::move(link.channel);
  card = std::move(link.card);
  topology = channel->topology();
  {
    MutexLock lock(clock_mutex_);
    comparing_ = compares_clocks(topology);
  }
  engine = std::make_unique<Engine>(
      engine_options(config, *channel, abort, events, bell,
                     [this](auto message) { return clock_sync.on_message(message); }));
  {
    MutexLock lock(clock_mutex_);
    counting_ = true;
  }
  start_nvtx();
  RONDE_RETURN_IF_ERROR(prepare_timeline());
  RONDE_RETURN_IF_ERROR(start_diagnosis());
  RONDE_RETURN_IF_ERROR(start_metrics());
  register_builtin_backends(registry, {config, kernels, std::move(link.tcp)});
  WaitOptions wait;
  wait.deadline = now() + config.start_timeout;
  RONDE_ASSIGN_OR_RETURN(const std::vector<int> everyone, sets.ranks(kGlobalSet));
  EngineExchange exchange(*engine, kSettingsKey, everyone, wait);
  RONDE_ASSIGN_OR_RETURN(tuned, agree_on_settings(config, config.rank, exchange));
  RONDE_ASSIGN_OR_RETURN(auto executor, open_executor(kGlobalSet, everyone, wait));
  engine->add_set(kGlobalSet, everyone, std::move(executor));
  return {};
}

GroupSpec Runtime::Impl::group_spec(std::uint64_t key, const std::vector<int>& ranks) const {
  GroupSpec spec;
  spec.key = key;
  spec.ranks = ranks;
  spec.rank =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), topology.rank) - ranks.begin());
  spec.topology = &topology;
  spec.abort = abort;
  return spec;
}

Result<std::unique_ptr<CollectiveExecutor>> Runtime::Impl::open_executor(
    std::uint64_t key, const std::vector<int>& ranks, const WaitOptions& options, SetId set,
    const std::string& algorithm) {
  const std::string& wanted = algorithm.empty() ? config.algorithm : algorithm;
  GroupSpec spec = group_spec(key, ranks);
  spec.deadline = options.deadline;
  EngineExchange exchange(*engine, key, ranks, options);
  const OpenRequest request{registry, config.backend, wanted, config.deterministic};
  const auto inside = [&](std::uint64_t inside_key, const std::vector<int>& members) {
    return std::make_unique<EngineExchange>(*engine, inside_key, members, options);
  };
  RONDE_ASSIGN_OR_RETURN(OpenedGroup opened, ronde::open_group(request, spec, exchange, inside));
  say_passed_over(opened);
  ExecutorOptions executor;
  executor.host = std::move(opened.parts);
  executor.kernels = kernels;
  executor.algorithm = wanted;
  executor.tuned = tuned;
  executor.deterministic = config.deterministic;
  executor.events = &events;
  executor.residuals = residuals;
  executor.loss_steps = config.compression_error_steps;
  executor.set = set;
  executor.open_device = [this, spec, wanted](int index) {
    return open_device(index, spec, wanted);
  };
  executor.rank = spec.rank;
  executor.size = spec.size();
  return create_executor(std::move(executor));
}

Result<DeviceParts> Runtime::Impl::open_device(int index, GroupSpec spec,
                                               const std::string& algorithm) {
  WaitOptions wait;
  wait.deadline = now() + config.start_timeout;
  spec.deadline = now() + config.start_timeout / 2;  // leaves time to agree on another way
  EngineExchange agreement(*engine, spec.key ^ kDeviceKeys, spec.ranks, wait);
  const auto inside = [&](std::uint64_t key, const std::vector<int>& members) {
    return std::make_unique<EngineExchange>(*engine, key ^ kDeviceKeys, members, wait);
  };
  return open_device_parts(devices, {registry, index, config.backend, algorithm, inside}, spec,
                           agreement);
}

void Runtime::Impl::say_passed_over(const OpenedGroup& opened) {
  if (opened.passed_over.empty() || topology.rank != topology.host_ranks(topology.rank).front()) {
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (!passed_over_.insert(opened.passed_over).second) return;
  }
  log(LogLevel::kWarning, "data goes over {}, as the better way could not be opened: {}",
      opened.name(), opened.passed_over);
}

Status Runtime::Impl::agree(const std::string& change, const WaitOptions& options) {
  const int round = set_changes.fetch_add(1);
  Submission barrier;  // so that a rank that does not come is warned of by name
  barrier.request.name = fmt::format("process set change #{}", round);
  barrier.request.kind = Collective::kBarrier;
  barrier.caller_waits = true;
  RONDE_ASSIGN_OR_RETURN(const OperationPtr operation,
                         engine->submit(kGlobalSet, std::move(barrier)));
  RONDE_RETURN_IF_ERROR(engine->wait(operation, options));
  RONDE_ASSIGN_OR_RETURN(const auto changes, share(change, options));
  for (std::size_t r = 1; r < changes.size(); ++r) {
    if (changes[r] != changes[0]) {
      return {Code::kMismatch, fmt::format("process sets: rank 0 asked to {}, rank {} to {}",
                                           changes[0], r, changes[r])};
    }
  }
  return {};
}

Result<std::vector<std::string>> Runtime::Impl::share(const std::string& mine,
                                                      const WaitOptions& options) {
  RONDE_ASSIGN_OR_RETURN(const auto everyone, sets.ranks(kGlobalSet));
  const auto round = static_cast<std::uint64_t>(shares.fetch_add(1));
  EngineExchange exchange(*engine, kShareKeys | round, everyone, options);
  return exchange.allgather(mine);
}

Status Runtime::Impl::share_outcome(const Status& mine, const WaitOptions& options) {
  RONDE_ASSIGN_OR_RETURN(const auto everyone, sets.ranks(kGlobalSet));
  const auto round = static_cast<std::uint64_t>(shares.fetch_add(1));
  EngineExchange exchange(*engine, kShareKeys | round, everyone, options);
  return first_error(exchange, everyone, mine);
}

Status Runtime::Impl::first_error(Exchange& exchange, const std::vector<int>& ranks,
                                  const Status& mine) {
  RONDE_ASSIGN_OR_RETURN(const auto outcomes, exchange.allgather(mine.message()));
  if (!mine.ok()) return mine;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].empty()) {
      return {Code::kUnavailable, fmt::format("rank {}: {}", ranks[i], outcomes[i])};
    }
  }
  return {};
}

Result<SetId> Runtime::Impl::agree_on_id(Exchange& exchange, const std::vector<int>& ranks,
                                         const std::string& name) const {
  RONDE_ASSIGN_OR_RETURN(const auto names, exchange.allgather(name));
  RONDE_ASSIGN_OR_RETURN(const auto ids, exchange.allgather(fmt::to_string(sets.next_private())));
  SetId id = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (names[i] != names[0]) {
      return Status(Code::kMismatch,
                    fmt::format("rank {} opens the set \"{}\", rank {} the set \"{}\"", ranks[0],
                                names[0], ranks[i], names[i]));
    }
    SetId theirs = 0;
    std::from_chars(ids[i].data(), ids[i].data() + ids[i].size(), theirs);
    id = std::max(id, theirs);
  }
  return id;
}

std::uint64_t Runtime::Impl::agreement_key(std::uint64_t raw_key) noexcept {
  return raw_key | kShareKeys;
}

Status Runtime::Impl::usable() const {
  if (mark->forked()) return forked_status();
  if (!stopped) return {};
  return {Code::kNotInitialized, "the runtime has been shut down; call init() again"};
}

Status Runtime::Impl::check(const Submission& submission, SetId set) const {
  const Request& request = submission.request;
  RONDE_RETURN_IF_ERROR(validate(request));
  if (submission.inputs.size() != request.tensors.size() ||
      submission.outputs.size() != request.tensors.size()) {
    return {
        Code::kInvalidArgument,
        fmt::format("{} tensors were described, but {} inputs and {} outputs given",
                    request.tensors.size(), submission.inputs.size(), submission.outputs.size())};
  }
  if (request.root < 0) return {};
  RONDE_ASSIGN_OR_RETURN(const auto members, sets.ranks(set));
  if (std::find(members.begin(), members.end(), request.root) != members.end()) return {};
  return {Code::kInvalidArgument, fmt::format("root rank {} is not in process set {}; allowed: {}",
                                              request.root, set, fmt::join(members, ", "))};
}

Status Runtime::Impl::settle_compression(Request& request, SetId set) const {
  const bool named = !request.compression.empty();
  RONDE_ASSIGN_OR_RETURN(request.compression, canonical_compression(request.compression));
  if (!named && !config.compression.empty() && worth_compressing(request, fewest_compressed_)) {
    request.compression = config.compression;
  }
  if (request.compression.empty()) return {};
  if (const std::uint64_t load = residuals->loads(set); load > 0) {
    RONDE_ASSIGN_OR_RETURN(const CompressionSpec spec, parse_compression(request.compression));
    request.compression = since_load(spec, load);
  }
  for (const TensorMeta& tensor : request.tensors) {
    const Status status = check_compressible(request.kind, tensor.dtype, request.op);
    if (!status.ok()) return status.with_context(fmt::format("\"{}\"", request.name));
  }
  return {};
}

Status Runtime::Impl::prepare_device(Submission& submission, SetId set) {
  Request& request = submission.request;
  if (request.device.kind != DeviceKind::kCuda) return {};
  auto device = devices.open(request.device.index);
  if (!device.ok()) {
    return {Code::kUnsupported,
            fmt::format("\"{}\" is on cuda:{}, which cannot be used here: {}", request.name,
                        request.device.index, device.status().message())};
  }
  if (!devices.claim(set, request.device.index)) request.device.kind = kSeveralDevices;
  RONDE_ASSIGN_OR_RETURN(submission.ready, (*device)->record(submission.stream));
  if (!submission.allocate) {
    submission.device_memory = [device = *device](std::size_t bytes) {
      return device->allocate(MemoryKind::kDevice, bytes);
    };
  }
  return {};
}

std::uint64_t Runtime::Impl::raw_key(const std::vector<int>& ranks) {
  MutexLock lock(mutex_);
  const int count = raw_groups_[ranks]++;
  const std::string text = fmt::format("{}#{}", fmt::join(ranks, ","), count);
  return kRawKeys | (std::hash<std::string>()(text) >> 3);
}

void Runtime::Impl::stop(std::string_view why) noexcept {
  if (mark->forked()) return;
  if (stopped.exchange(true)) return;
  if (engine) {
    engine->leave(now() + std::chrono::seconds(5), std::string(why));
    diagnosis.reset();
    metrics.reset();
    {
      MutexLock lock(clock_mutex_);
      comparing_ = false;
      counting_ = false;
    }
    engine.reset();
  }
  if (const Status status = stop_timeline(); !status.ok()) {
    log(LogLevel::kWarning, "the timeline is incomplete: {}", status.message());
  }
  if (channel) channel->close();
}

}  // namespace ronde
