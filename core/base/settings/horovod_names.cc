#include "core/base/settings/horovod_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/join_text.h"
#include "core/base/settings/setting_names.h"

namespace ronde {
namespace {

constexpr std::string_view kHorovodPrefix = "HOROVOD_";
constexpr auto kObeyed = HorovodUse::kObeyed;
constexpr auto kReplaced = HorovodUse::kReplaced;
constexpr auto kNeedless = HorovodUse::kNeedless;

constexpr std::string_view kNoCycles =
    "there are no cycles: an operation starts as soon as all ranks have submitted it";
constexpr std::string_view kSelector =
    "the algorithm is selected by size and hosts; RONDE_ALGORITHM chooses another";
constexpr std::string_view kTuning =
    "nothing is tuned at run time: `ronde bench --tune FILE` measures, RONDE_TUNING_FILE uses it";
constexpr std::string_view kOwnControl =
    "Ronde's own control plane is used; RONDE_BACKEND chooses what moves data";
constexpr std::string_view kLogTimes = "lines of Ronde's log always have their time";
constexpr std::string_view kMpiThreads =
    "MPI_THREAD_MULTIPLE is asked for; where MPI gives less, calls take turns";
constexpr std::string_view kNcclStreams = "NCCL uses one stream for each process set";
constexpr std::string_view kCores = "each rank, with its threads, runs on cores of its own";
constexpr std::string_view kGlooTimeout =
    "waits end by RONDE_LINK_TIMEOUT_MS and RONDE_STALL_ERROR_SECONDS, with any data plane";
constexpr std::string_view kCycleMarks = "marks cycles in a trace that HOROVOD_TIMELINE asks for";
constexpr std::string_view kSetByLauncher = "set by launchers";
constexpr std::string_view kOfBuild =
    "concerns the build of Horovod: Ronde needs no headers of frameworks, and finds MPI and NCCL "
    "when it runs";
constexpr std::string_view kSpark = "there is no Spark in Ronde";

constexpr auto kTable = std::to_array<HorovodName>({
    // Programs and hosts.
    {"--num-proc,-np,--np,-n", 1, "", "", kObeyed, "", "", "number of ranks"},
    {"--check-build,-cb", 0, "", "", kObeyed, "", "", "prints what this build can do"},
    {"--version,-v", 0, "", "", kObeyed, "", "", "prints Ronde's version"},
    {"--hosts,-H", 1, "", "", kObeyed, "", "", "hosts with their slots"},
    {"--hostfile,-hostfile,--host-file", 1, "", "", kObeyed, "", "", "file that lists the hosts"},
    {"--ssh-port,-p", 1, "", "", kObeyed, "", "", "port of sshd"},
    {"--ssh-identity-file,-i", 1, "", "", kObeyed, "", "", "private key for ssh"},
    {"--network-interfaces,--network-interface,--nics", 1, "", "HOROVOD_GLOO_IFACE", kObeyed, "",
     "", "interface between hosts; of several the first that this host has"},
    {"--start-timeout", 1, "", "HOROVOD_START_TIMEOUT", kObeyed, "", "",
     "seconds in which all ranks must start"},
    {"--config-file", 1, "", "", kObeyed, "", "", "YAML file with values of flags"},
    {"--verbose", 0, "", "", kObeyed, "", "", "prints what is started, and whole tracebacks"},
    {"--output-filename", 1, "", "", kObeyed, "", "",
     "folder with one file for each rank, rank.N.txt"},
    {"--prefix-output-with-timestamp,-prefix-timestamp", 0, "", "", kObeyed, "", "",
     "the time before each line of output"},
    {"--disable-cache", 0, "", "", kReplaced, "", "",
     "hosts are not checked ahead of the start, so that there are no results to keep"},
    {"--gloo,--use-gloo", 0, "controller=gloo", "", kReplaced, "", "", kOwnControl},
    {"--mpi,--use-mpi", 0, "controller=mpi", "", kReplaced, "", "", kOwnControl},
    {"", 0, "", "HOROVOD_CONTROLLER,HOROVOD_CPU_OPERATIONS", kReplaced, "", "", kOwnControl},
    {"--jsrun", 0, "", "", kReplaced, "", "",
     "ranks are started through ssh; -H or --hostfile lists the hosts of an LSF job"},
    {"--mpi-args", 1, "", "", kReplaced, "", "",
     "mpirun is not used; `ronde run --backend mpi --mpi-args` uses it"},
    {"--tcp", 0, "", "", kObeyed, "NCCL_IB_DISABLE=1", "", "NCCL uses no InfiniBand"},
    {"--binding-args", 1, "", "", kReplaced, "", "", kCores},
    {"--thread-affinity", 1, "library_options.thread_affinity", "HOROVOD_THREAD_AFFINITY",
     kReplaced, "", "", kCores},
    // Elastic jobs.
    {"--min-np,--min-num-proc", 1, "", "", kObeyed, "", "", "least workers of an elastic job"},
    {"--max-np,--max-num-proc", 1, "", "", kObeyed, "", "", "most workers of an elastic job"},
    {"--slots-per-host,--slots", 1, "", "", kObeyed, "", "", "slots of hosts without a number"},
    {"--host-discovery-script", 1, "", "", kObeyed, "", "", "program that lists the hosts"},
    {"--elastic-timeout", 1, "", "HOROVOD_ELASTIC_TIMEOUT", kObeyed, "", "",
     "seconds to wait for enough workers"},
    {"--reset-limit", 1, "", "", kObeyed, "", "", "changes of workers until the job fails"},
    {"--blacklist-cooldown-range", 2, "", "", kObeyed, "", "",
     "seconds until a host is used again"},
    {"", 0, "", "HOROVOD_ELASTIC", kNeedless, "", "", kSetByLauncher},
    // Operations.
    {"--fusion-threshold-mb", 1, "params.fusion_threshold_mb", "HOROVOD_FUSION_THRESHOLD", kObeyed,
     "RONDE_FUSION_THRESHOLD=", "M", "largest fused operation: MB by the flag, else bytes"},
    {"--cache-capacity", 1, "params.cache_capacity", "HOROVOD_CACHE_CAPACITY", kObeyed,
     "RONDE_CACHE_CAPACITY=", "", "known operations of each process set"},
    {"--cycle-time-ms", 1, "params.cycle_time_ms", "HOROVOD_CYCLE_TIME", kReplaced, "", "",
     kNoCycles},
    {"--hierarchical-allreduce", 0, "params.hierarchical_allreduce",
     "HOROVOD_HIERARCHICAL_ALLREDUCE", kReplaced, "", "", kSelector},
    {"--no-hierarchical-allreduce", 0, "params.hierarchical_allreduce=false", "", kReplaced, "", "",
     kSelector},
    {"--hierarchical-allgather", 0, "params.hierarchical_allgather",
     "HOROVOD_HIERARCHICAL_ALLGATHER", kReplaced, "", "", kSelector},
    {"--no-hierarchical-allgather", 0, "params.hierarchical_allgather=false", "", kReplaced, "", "",
     kSelector},
    {"--torus-allreduce", 0, "params.torus_allreduce", "HOROVOD_TORUS_ALLREDUCE", kReplaced, "", "",
     kSelector},
    {"--no-torus-allreduce", 0, "params.torus_allreduce=false", "", kReplaced, "", "", kSelector},
    {"--autotune", 0, "autotune.enabled", "HOROVOD_AUTOTUNE", kReplaced, "", "", kTuning},
    {"--no-autotune", 0, "autotune.enabled=false", "", kNeedless, "", "", "nothing is tuned"},
    {"--autotune-log-file", 1, "autotune.log_file", "HOROVOD_AUTOTUNE_LOG", kReplaced, "", "",
     kTuning},
    {"--autotune-warmup-samples", 1, "autotune.warmup_samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
     kReplaced, "", "", kTuning},
    {"--autotune-steps-per-sample", 1, "autotune.steps_per_sample",
     "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", kReplaced, "", "", kTuning},
    {"--autotune-bayes-opt-max-samples", 1, "autotune.bayes_opt_max_samples",
     "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", kReplaced, "", "", kTuning},
    {"--autotune-gaussian-process-noise", 1, "autotune.gaussian_process_noise",
     "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", kReplaced, "", "", kTuning},
    {"--mpi-threads-disable", 0, "library_options.mpi_threads_disable",
     "HOROVOD_MPI_THREADS_DISABLE", kReplaced, "", "", kMpiThreads},
    {"--no-mpi-threads-disable", 0, "library_options.mpi_threads_disable=false", "", kNeedless, "",
     "", "MPI's threads stay as they are"},
    {"--num-nccl-streams", 1, "library_options.num_nccl_streams", "HOROVOD_NUM_NCCL_STREAMS",
     kReplaced, "", "", kNcclStreams},
    {"--gloo-timeout-seconds", 1, "library_options.gloo_timeout_seconds",
     "HOROVOD_GLOO_TIMEOUT_SECONDS", kReplaced, "", "", kGlooTimeout},
    {"", 0, "", "HOROVOD_DISABLE_GROUP_FUSION", kReplaced, "", "",
     "a group may be fused with other operations; RONDE_FUSION_THRESHOLD=0 fuses nothing"},
    {"", 0, "", "HOROVOD_DYNAMIC_PROCESS_SETS", kNeedless, "", "",
     "process sets may always be added and removed"},
    {"", 0, "", "HOROVOD_BATCH_D2D_MEMCOPIES", kReplaced, "", "",
     "copies between GPU tensors are always batched"},
    {"", 0, "", "HOROVOD_ENABLE_ASYNC_COMPLETION", kReplaced, "", "",
     "operations on GPUs always complete asynchronously"},
    {"", 0, "", "HOROVOD_ENABLE_XLA_OPS", kReplaced, "", "",
     "XLA compiles no operations of Ronde: set jit_compile=False"},
    {"", 0, "", "HOROVOD_ADASUM_MPI_CHUNK_SIZE", kReplaced, "", "",
     "pieces of large operations have RONDE_PARTITION_BYTES"},
    {"", 0, "", "HOROVOD_CCL_CACHE", kReplaced, "", "", "there is no oneCCL in Ronde"},
    // Observation.
    {"--timeline-filename", 1, "timeline.filename", "HOROVOD_TIMELINE", kObeyed, "", "",
     "trace of all ranks; the variable's value DYNAMIC waits for start_timeline()"},
    {"--timeline-mark-cycles", 0, "timeline.mark_cycles", "HOROVOD_TIMELINE_MARK_CYCLES", kObeyed,
     "HOROVOD_TIMELINE_MARK_CYCLES=1", "", kCycleMarks},
    {"--no-timeline-mark-cycles", 0, "timeline.mark_cycles=false", "", kObeyed,
     "HOROVOD_TIMELINE_MARK_CYCLES=0", "", "no marks of cycles"},
    {"--no-stall-check", 0, "stall_check.enabled=false", "HOROVOD_STALL_CHECK_DISABLE", kObeyed,
     "RONDE_STALL_WARNING_SECONDS=0", "", "no warnings of operations that wait"},
    {"--stall-check", 0, "stall_check.enabled", "", kNeedless, "", "", "stalls are watched for"},
    {"--stall-check-warning-time-seconds,--stall-warning-timeout-seconds", 1,
     "stall_check.warning_time_seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", kObeyed,
     "RONDE_STALL_WARNING_SECONDS=", "", "warns of operations that some ranks lack"},
    {"--stall-check-shutdown-time-seconds,--stall-shutdown-timeout-seconds", 1,
     "stall_check.shutdown_time_seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", kObeyed,
     "RONDE_STALL_ERROR_SECONDS=", "", "fails such operations"},
    {"--log-level", 1, "logging.level", "HOROVOD_LOG_LEVEL", kObeyed, "", "",
     "least severity to log"},
    {"--log-with-timestamp", 0, "logging.with_timestamp", "", kNeedless, "", "", kLogTimes},
    {"--no-log-hide-timestamp", 0, "", "", kNeedless, "", "", kLogTimes},
    {"--log-without-timestamp", 0, "logging.with_timestamp=false", "HOROVOD_LOG_HIDE_TIME",
     kReplaced, "", "", kLogTimes},
    {"--log-hide-timestamp", 0, "", "", kReplaced, "", "", kLogTimes},
    {"", 0, "", "HOROVOD_DISABLE_NVTX_RANGES", kNeedless, "", "",
     "NVTX ranges are off unless RONDE_NVTX=1"},
    // The job.
    {"", 0, "", "HOROVOD_RANK,HOROVOD_SIZE", kObeyed, "", "", kSetByLauncher},
    {"", 0, "",
     "HOROVOD_LOCAL_RANK,HOROVOD_LOCAL_SIZE,HOROVOD_CROSS_RANK,HOROVOD_CROSS_SIZE,"
     "HOROVOD_HOSTNAME,HOROVOD_SECRET_KEY",
     kNeedless, "", "", kSetByLauncher},
    {"", 0, "", "HOROVOD_GLOO_RENDEZVOUS_ADDR,HOROVOD_GLOO_RENDEZVOUS_PORT", kReplaced, "", "",
     "ranks meet by RONDE_RENDEZVOUS; `ronde run` sets it"},
    {"", 0, "", "HOROVOD_SPARK_*", kReplaced, "", "", kSpark},
    // Horovod's build. Images with Horovod set them.
    {"", 0, "",
     "HOROVOD_WITH_*,HOROVOD_WITHOUT_*,HOROVOD_GPU,HOROVOD_GPU_*,HOROVOD_NCCL_*,"
     "HOROVOD_NVTX_INCLUDE,HOROVOD_CUDA_*,HOROVOD_ROCM_*,HOROVOD_DDL_*,"
     "HOROVOD_BUILD_*,HOROVOD_ALLOW_MIXED_GPU_IMPL,HOROVOD_CMAKE,HOROVOD_DEBUG,"
     "HOROVOD_LOCAL_VERSION,HOROVOD_MPICXX_SHOW,HOROVOD_SKIP_COMPILE,"
     "HOROVOD_CPU_OPERATIONS_DEFAULT,HOROVOD_CONTROLLER_DEFAULT",
     kReplaced, "", "", kOfBuild},
});

/// Variables that switch something on which Ronde does not do: "0" asks for nothing.
bool asks_for_nothing(const NamedValue& variable) {
  return variable.value.empty() || variable.value == "0";
}

/// The names in a list with commas.
std::vector<std::string_view> names_of(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    names.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

std::string code(std::string_view list) {
  const std::vector<std::string_view> names = names_of(list);
  return names.empty() ? "" : fmt::format("`{}`", join_text(names, "`, `"));
}

/// The variable with the most similar name, without the prefix that all have; empty if none is.
std::string_view horovod_variable_meant(std::string_view name) {
  std::vector<std::string_view> known;
  for (const HorovodName& row : kTable) {
    for (const std::string_view variable : names_of(row.variables)) {
      known.push_back(variable.substr(kHorovodPrefix.size()));
    }
  }
  return similar_name(name.substr(kHorovodPrefix.size()), known);
}

/// Adds `name` to the names with the same meaning.
using Grouped = std::vector<std::pair<std::string_view, std::vector<std::string>>>;
void add_to(Grouped& grouped, std::string_view meaning, const std::string& name) {
  auto found = std::ranges::find(grouped, meaning, [](const auto& entry) { return entry.first; });
  if (found == grouped.end()) found = grouped.insert(grouped.end(), {meaning, {}});
  found->second.push_back(name);
}

}  // namespace

std::span<const HorovodName> horovod_names() { return kTable; }

const HorovodName* find_horovod_variable(std::string_view name) {
  const auto found = std::ranges::find_if(kTable, [&](const HorovodName& row) {
    return std::ranges::any_of(names_of(row.variables),
                               [&](auto variable) { return matches(variable, name); });
  });
  return found == kTable.end() ? nullptr : &*found;
}

std::vector<std::string> describe_horovod_variables(std::span<const NamedValue> variables) {
  std::vector<std::string> sentences;
  Grouped replaced;
  for (const NamedValue& variable : variables) {
    if (!variable.name.starts_with(kHorovodPrefix)) continue;
    const HorovodName* const row = find_horovod_variable(variable.name);
    if (row == nullptr) {
      const std::string_view meant = horovod_variable_meant(variable.name);
      const std::string hint = meant.empty() ? "`ronde doctor --horovod` lists them"
                                             : fmt::format("{}{} is", kHorovodPrefix, meant);
      sentences.push_back(fmt::format("{} is no variable of Horovod 0.28 and has no effect; {}",
                                      variable.name, hint));
    } else if (row->use == HorovodUse::kReplaced && !asks_for_nothing(variable)) {
      add_to(replaced, row->meaning, variable.name);
    }
  }
  for (const auto& [meaning, names] : replaced) {
    sentences.push_back(fmt::format("{} {} no effect: {}", join_text(names, ", "),
                                    names.size() == 1 ? "has" : "have", meaning));
  }
  return sentences;
}

std::string horovod_names_as_markdown() {
  constexpr const char* kUses[] = {"obeyed", "replaced", "not needed"};
  std::string table = "| flag | variable | | what Ronde does |\n|---|---|---|---|\n";
  for (const HorovodName& row : kTable) {
    table += fmt::format("| {} | {} | {} | {} |\n", code(row.flags), code(row.variables),
                         kUses[static_cast<std::size_t>(row.use)], row.meaning);
  }
  return table;
}

}  // namespace ronde
