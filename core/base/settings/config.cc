#include "core/base/settings/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/base/settings/launchers.h"
#include "core/base/settings/setting_kinds.h"
#include "core/base/settings/setting_names.h"
#include "core/base/wire_codec.h"

namespace ronde {
namespace {

using setting_kinds::flag;
using setting_kinds::freeze;
using setting_kinds::integer;
using setting_kinds::level;
using setting_kinds::one_of;
using setting_kinds::seconds;
using setting_kinds::size;
using setting_kinds::text;
using setting_kinds::time;

/// The ranks, and where they meet.
std::vector<Setting> job_settings() {
  return {
      integer({"RONDE_RANK", "HOROVOD_RANK", "rank", "this process's rank"}, &Config::rank, 0),
      integer({"RONDE_SIZE", "HOROVOD_SIZE", "ranks", "number of processes"}, &Config::size, 1),
      integer({"RONDE_WORKER", "", "number",
               "this worker's number in an elastic job, as its launcher sets it; 0: no such job"},
              &Config::worker, 0),
      integer({"RONDE_EPOCH", "", "number",
               "the elastic job's epoch, as its launcher sets it; 0: no such job"},
              &Config::epoch, 0),
      text({"RONDE_JOB_ID", "", "text",
            "the job's name, the same on all ranks; needed without a launcher"},
           &Config::job_id),
      text({"RONDE_RENDEZVOUS", "", "host:port",
            "where rank 0 listens for ranks of other hosts, at the first free port of "
            "host:port,port; "
            "empty: one host only"},
           &Config::rendezvous),
      text({"RONDE_RENDEZVOUS_TREE", "", "ranks host:port host:port",
            "the ranks of each host, and where this host and the one above it meet, as `ronde run` "
            "sets it; empty: all meet at RONDE_RENDEZVOUS"},
           &Config::rendezvous_tree),
      text({"RONDE_SECRET_FILE", "", "path",
            "file (mode 0600) with the job's secret, the same on all hosts"},
           &Config::secret_file),
      integer({"RONDE_SECRET_FD", "", "descriptor", "inherited descriptor with the job's secret"},
              &Config::secret_fd, 0),
      one_of({"RONDE_ENCRYPTION", "", "mode",
              "encrypt between hosts, the same on all ranks: off; on; required, which also refuses "
              "backends that cannot"},
             &Config::encryption, {"off", "on", "required"}),
      text({"RONDE_NETWORK_INTERFACE", "HOROVOD_GLOO_IFACE", "interface",
            "interface, by name or address, for connections between hosts; several, as eth0,eth1: "
            "data is spread over them, the same number on all hosts"},
           &Config::network_interface),
      integer({"RONDE_MAX_CONNECTIONS", "", "number",
               "data connections of a rank with ranks of other hosts; beyond that, idle ones are "
               "closed until they are used again; 0: no limit"},
              &Config::max_connections, 0),
      time({"RONDE_START_TIMEOUT_MS", "", "ms", "time that init() waits for all ranks"},
           &Config::start_timeout),
  };
}

/// How data moves.
std::vector<Setting> data_settings() {
  return {
      text({"RONDE_BACKEND", "", "name", "data plane: auto, or one that `ronde run --help` lists"},
           &Config::backend),
      text({"RONDE_ALGORITHM", "", "name",
            "algorithm of all collectives that have it; empty: by size"},
           &Config::algorithm),
      text({"RONDE_TUNING_FILE", "", "path",
            "table of the fastest algorithms, from ronde bench --tune; all ranks use rank 0's"},
           &Config::tuning_file),
      one_of({"RONDE_SINGLE_COPY", "", "when",
              "shared memory copies directly between processes (process_vm_readv): auto, always, "
              "never"},
             &Config::single_copy, {"auto", "always", "never"}),
      one_of({"RONDE_SPARSE_PATH", "", "path",
              "path of sparse allreduces: auto (by bytes), keys (added by the owners of rows), "
              "allgather, dense"},
             &Config::sparse_path, {"auto", "keys", "allgather", "dense"}),
      text({"RONDE_COMPRESSION", "", "codec",
            "codec of allreduces of floating matrices that name none; see `ronde doctor --codecs`"},
           &Config::compression),
      size({"RONDE_RESIDUAL_LIMIT", "", "bytes",
            "limit of all residuals (error feedback); further tensors get none; 0: no limit"},
           &Config::residual_limit_bytes),
      size({"RONDE_COMPRESSION_ERROR", "", "steps",
            "measure each residual's norm every N steps, for the timeline and "
            "Compression.errors(); 0: never"},
           &Config::compression_error_steps),
      flag({"RONDE_DETERMINISTIC", "", "0/1",
            "results have the same bits with any fusion, algorithm and backend"},
           &Config::deterministic),
      size({"RONDE_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", "bytes",
            "largest fused operation; 0: no fusion"},
           &Config::fusion_threshold_bytes),
      size({"RONDE_PARTITION_BYTES", "", "bytes",
            "cut larger allreduces, reduces and broadcasts into pieces of about this size; "
            "operations of higher priority run between pieces; 0: never"},
           &Config::partition_bytes),
      size({"RONDE_INLINE_BYTES", "", "bytes",
            "run bundles up to this size in the thread that drives the engine"},
           &Config::inline_bytes),
      size({"RONDE_INLINE_PAYLOAD_BYTES", "", "bytes",
            "small operations between hosts carry their data with the agreement, up to so many "
            "bytes of all ranks together (at most 16K); 0: never"},
           &Config::inline_payload_bytes, kMaxPayloadBytes),
      size({"RONDE_CACHE_CAPACITY", "HOROVOD_CACHE_CAPACITY", "entries",
            "response cache's operations for each process set; 0: no cache"},
           &Config::cache_capacity),
  };
}

/// Checks of the values that are trained, and faults to rehearse them.
std::vector<Setting> check_settings() {
  return {
      one_of({"RONDE_CHECK_FIRST_STEP", "", "what",
              "what happens where parameters differ between ranks at the first step, the same on "
              "all ranks: warn, on rank 0; error, on all ranks; off: they are not compared"},
             &Config::check_first_step, {"warn", "error", "off"}),
      size({"RONDE_REPLICA_CHECK_STEPS", "", "steps",
            "compare hashes of parameters and the optimizer's state between ranks every N steps, "
            "the same on all ranks; 0: never"},
           &Config::replica_check_steps),
      one_of({"RONDE_REPLICA_CHECK", "", "what",
              "what happens where replicas differ, the same on all ranks: warn; fail, on all "
              "ranks; repair: the differing ranks get the values of most ranks"},
             &Config::replica_check, {"warn", "fail", "repair"}),
      one_of({"RONDE_CHECK_NONFINITE", "", "what",
              "what happens where NaN or Inf is reduced, the same on all ranks: off, nobody looks; "
              "warn, on one rank; fail, an error on all; skip, no step of the optimizer"},
             &Config::check_nonfinite, {"off", "warn", "fail", "skip"}),
      text({"RONDE_CHECK_MEAN", "", "name",
            "compare sums and averages whose names have this in them with float64, the same on all "
            "ranks; empty: none"},
           &Config::check_mean),
      size({"RONDE_CHECK_SUMS", "", "operations",
            "one of so many allreduces is drawn, and 256 elements of it are computed once more on "
            "all ranks, the same on all ranks; an error if they are wrong; 0: none"},
           &Config::check_sums),
      flag(
          {"RONDE_CHECKSUMS", "", "0/1",
           "check all data by checksums on its way between ranks, in shared memory and over tcp, "
           "the same on all ranks; wrong data is sent again where connections heal, else an error"},
          &Config::checksums),
      text({"RONDE_INJECT", "", "fault",
            "faults to plant, as `ronde run --inject` sets it; refused where that has not set it"},
           &Config::inject),
  };
}

/// How long to wait, and what to tell.
std::vector<Setting> watch_settings() {
  return {
      time({"RONDE_SPIN_US", "", "us",
            "time that a wait spins before it sleeps; jobs on several hosts do not spin"},
           &Config::spin),
      time({"RONDE_LINK_TIMEOUT_MS", "", "ms",
            "give up a host that acknowledges no data for this long; 0: never"},
           &Config::link_timeout),
      freeze({"RONDE_FREEZE_TIMEOUT_SECONDS", "", "s",
              "give up a rank that does not run for this long; 0: never (for debuggers)"}),
      seconds({"RONDE_RECONNECT_SECONDS", "", "s",
               "open connections between hosts again for so long after they break, the same on all "
               "ranks; 0: a broken connection ends the job"},
              &Config::reconnect_limit),
      time({"RONDE_STALL_WARNING_SECONDS", "HOROVOD_STALL_CHECK_TIME_SECONDS", "s",
            "warn of an operation that some ranks have not submitted or begun; 0: never"},
           &Config::stall_warning),
      time({"RONDE_STALL_ERROR_SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "s",
            "fail an operation that some ranks have not submitted or begun; 0: never"},
           &Config::stall_error),
      level({"RONDE_LOG_LEVEL", "HOROVOD_LOG_LEVEL", "level",
             "least severity to log: trace, debug, info, warning, error, off"},
            &Config::log_level),
      text({"RONDE_TIMELINE", "HOROVOD_TIMELINE", "path", "write a Chrome trace here"},
           &Config::timeline),
      flag({"RONDE_NVTX", "", "0/1",
            "mark operations by NVTX ranges, for profilers such as Nsight Systems"},
           &Config::nvtx),
      size({"RONDE_TIMELINE_PART_BYTES", "", "bytes",
            "size at which a rank's trace continues in a new file; 0: never"},
           &Config::timeline_part_bytes),
      integer({"RONDE_TIMELINE_PARTS", "", "files",
               "number of newest files to keep of a rank's trace that has parts"},
              &Config::timeline_parts, 2, 10'000),
      one_of({"RONDE_TIMELINE_SIGNAL", "", "signal",
              "signal that starts and stops the trace (which then does not start with the job): "
              "USR1, USR2, off"},
             &Config::timeline_signal, {"off", "USR1", "USR2"}),
      integer(
          {"RONDE_METRICS_PORT", "", "port",
           "Prometheus metrics: local rank r of each host serves them at this port + r; 0: none"},
          &Config::metrics_port, 0, 65'535),
      text({"RONDE_METRICS_ADDRESS", "", "address",
            "IPv4 or IPv6 address that serves metrics; 0.0.0.0 or ::: all addresses of the host"},
           &Config::metrics_address),
      text({"RONDE_DUMP_DIR", "", "path",
            "folder for dumps of ranks that fail, stall or get the signal; empty: to the log"},
           &Config::dump_dir),
      one_of({"RONDE_DUMP_SIGNAL", "", "signal",
              "signal that asks for a dump, unless the program handles it: USR1, USR2, off; auto: "
              "USR2 under ronde run"},
             &Config::dump_signal, {"auto", "off", "USR1", "USR2"}),
  };
}

std::vector<Setting> make_settings() {
  std::vector<Setting> all = job_settings();
  for (auto part : {data_settings(), check_settings(), watch_settings()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> kTable = make_settings();
  return kTable;
}

const Setting* find_setting(std::string_view name) {
  for (const Setting& setting : settings()) {
    if (setting.info.name == name) return &setting;
  }
  return nullptr;
}

/// Horovod writes levels in capitals, and has one above error.
std::string as_ronde_writes(std::string_view name, std::string value) {
  if (name != "HOROVOD_LOG_LEVEL") return value;
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
  return value == "fatal" ? "error" : value;
}

/// Variables of Horovod that are no setting of Ronde by another name.
Status read_horovod(Config& config, const Environment& environment) {
  const auto given = [&](const char* name) { return !environment(name).value_or("").empty(); };
  const std::string seconds = environment("HOROVOD_START_TIMEOUT").value_or("");
  if (!seconds.empty() && !given("RONDE_START_TIMEOUT_MS")) {
    const Status status = set_setting(config, "RONDE_START_TIMEOUT_MS", seconds + "000");
    if (!status.ok()) return status.with_context("from HOROVOD_START_TIMEOUT, in seconds");
  }
  const std::string unwatched = environment("HOROVOD_STALL_CHECK_DISABLE").value_or("0");
  if (unwatched != "0" && !unwatched.empty() && !given("RONDE_STALL_WARNING_SECONDS")) {
    config.stall_warning = config.stall_error = std::chrono::seconds(0);
  }
  if (config.timeline == "DYNAMIC" && !given("RONDE_TIMELINE")) config.timeline.clear();
  return {};
}

/// A rank and a size that do not fit, or one of them without the other.
Status check_place(const Config& config, const Environment& environment, bool own_job) {
  const auto missing = [&](const char* setting, const char* horovod) {
    return environment(setting).value_or("").empty() && environment(horovod).value_or("").empty();
  };
  if (config.rank >= config.size && missing("RONDE_SIZE", "HOROVOD_SIZE")) {
    return {Code::kInvalidArgument,
            fmt::format("RONDE_SIZE is not set, but the rank is {}: set both", config.rank)};
  }
  if (own_job && config.size > 1 && missing("RONDE_RANK", "HOROVOD_RANK")) {
    return {Code::kInvalidArgument,
            fmt::format("RONDE_RANK is not set, but RONDE_SIZE is {}: set both", config.size)};
  }
  if (config.rank < config.size) return {};
  return bad_value("RONDE_RANK", fmt::to_string(config.rank),
                   fmt::format("whole numbers from 0 to {} (RONDE_SIZE - 1)", config.size - 1));
}

}  // namespace

std::span<const SettingInfo> setting_infos() {
  static const std::vector<SettingInfo> kInfos = [] {
    std::vector<SettingInfo> list;
    for (const Setting& setting : settings()) list.push_back(setting.info);
    return list;
  }();
  return kInfos;
}

std::string setting_value(const Config& config, std::string_view name) {
  const Setting* setting = find_setting(name);
  return setting == nullptr ? std::string() : setting->get(config);
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

Status set_setting(Config& config, std::string_view name, const std::string& value) {
  const Setting* setting = find_setting(name);
  if (setting == nullptr) {
    return {Code::kInvalidArgument, fmt::format("there is no setting \"{}\"", name)};
  }
  return setting->set(config, value);
}

Result<Config> config_from(const Environment& environment) {
  Config config;
  const bool own_job = environment("RONDE_SIZE").has_value();
  for (const Setting& setting : settings()) {
    std::string name(setting.info.name);
    auto value = environment(name);
    if (!value && !setting.info.horovod.empty()) {
      name = setting.info.horovod;
      value = environment(name);
      if (value) value = as_ronde_writes(name, *value);
    }
    if (!value || value->empty()) continue;
    if (Status status = setting.set(config, *value); !status.ok()) {
      return name == setting.info.name ? status : status.with_context("from " + name);
    }
  }
  RONDE_RETURN_IF_ERROR(read_horovod(config, environment));
  if (!own_job) RONDE_RETURN_IF_ERROR(read_launched_job(config, environment));
  RONDE_RETURN_IF_ERROR(check_place(config, environment, own_job));
  RONDE_RETURN_IF_ERROR(check_program_settings(environment));
  return config;
}

}  // namespace ronde
