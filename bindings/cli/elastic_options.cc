#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/launch/elastic/elastic_launcher.h"
#include "core/base/settings/config.h"

namespace ronde {
namespace {

constexpr int kMostRanks = 65536;

Status refuse(std::string text) { return {Code::kInvalidArgument, std::move(text)}; }

/// The first option that only elastic jobs have; empty where none was given.
std::string elastic_only_option(const ElasticRequest& request) {
  if (request.reset_limit >= 0) return "--reset-limit";
  if (request.timeout_seconds > 0) return "--elastic-timeout";
  if (!request.cooldown_seconds.empty()) return "--blacklist-cooldown-range";
  return {};
}

elastic::FailurePolicy policy_of(const ElasticRequest& request) {
  const bool blacklist =
      request.on_failure.empty() ? request.as_horovod : request.on_failure == "blacklist";
  return blacklist ? elastic::FailurePolicy::kBlacklist : elastic::FailurePolicy::kRespawn;
}

Status check_sizes(int min_np, int np, int max_np) {
  const auto above = [](int low, int high) { return low > 0 && high > 0 && low > high; };
  if (above(min_np, max_np)) {
    return refuse(fmt::format("--min-np {}: allowed is 1 to --max-np {}", min_np, max_np));
  }
  if (above(min_np, np)) {
    return refuse(fmt::format("-np {}: allowed is --min-np {} or more", np, min_np));
  }
  if (above(np, max_np)) {
    return refuse(fmt::format("-np {}: allowed is 1 to --max-np {}", np, max_np));
  }
  return {};
}

Status check_cooldown(const ElasticRequest& request) {
  const std::vector<double>& range = request.cooldown_seconds;
  if (range.empty()) return {};
  if (policy_of(request) != elastic::FailurePolicy::kBlacklist) {
    return refuse("--blacklist-cooldown-range needs --on-failure blacklist");
  }
  if (range[0] > 0 && range[0] <= range[1]) return {};
  return refuse(fmt::format("--blacklist-cooldown-range {} {}: allowed are seconds, 0 < MIN <= MAX",
                            range[0], range[1]));
}

Status check_script(const RunRequest& request) {
  const std::string& script = request.elastic.discovery_script;
  if (script.empty()) return {};
  if (!request.hosts.empty() || !request.hostfile.empty()) {
    return refuse("--host-discovery-script lists the hosts: give no -H and no --hostfile");
  }
  if (can_run(script)) return {};
  return refuse(fmt::format(
      "--host-discovery-script {}: allowed is a program that can be run, as a path or in PATH; it "
      "gets no arguments",
      script));
}

/// The slots of hosts that are listed without a number.
int default_slots(const ElasticRequest& request) { return std::max(1, request.slots_per_host); }

/// Checks the file once at the start; the job reads it again and again.
Status check_hostfile(const RunRequest& request) {
  if (request.hostfile.empty()) return {};
  return read_hostfile(request.hostfile, default_slots(request.elastic)).status();
}

elastic::HostPauses pauses_of(const ElasticRequest& request) {
  elastic::HostPauses pauses;
  pauses.policy = policy_of(request);
  if (request.cooldown_seconds.empty()) return pauses;
  pauses.cooldown_first = to_ms(request.cooldown_seconds[0]);
  pauses.cooldown_longest = to_ms(request.cooldown_seconds[1]);
  return pauses;
}

/// Without a list of hosts, this host has as many slots as ranks are asked for.
HostSlots own_host(const RunRequest& request) {
  const int asked = asked_slots(request);
  return {"localhost", asked > 0 ? asked : std::max(1, request.elastic.min_np)};
}

DiscoverySpec discovery_of(const RunRequest& request) {
  const int slots = default_slots(request.elastic);
  DiscoverySpec spec;
  if (!request.elastic.discovery_script.empty()) {
    spec.command = {request.elastic.discovery_script};
    spec.name = "--host-discovery-script " + request.elastic.discovery_script;
    spec.parse = [slots](std::string_view text) { return parse_discovered_hosts(text, slots); };
  } else if (!request.hostfile.empty()) {
    spec.command = {"cat", "--", request.hostfile};
    spec.name = "--hostfile " + request.hostfile;
    spec.parse = [slots](std::string_view text) { return parse_hostfile(text, slots); };
  }
  return spec;
}

/// The setting as the workers will have it: the last of `environment`, else this process's.
Result<std::chrono::seconds> freeze_timeout(const EnvironmentList& environment) {
  constexpr std::string_view kName = "RONDE_FREEZE_TIMEOUT_SECONDS";
  std::optional<std::string> value = process_environment()(std::string(kName));
  for (const std::string& entry : environment) {
    if (entry.rfind(fmt::format("{}=", kName), 0) == 0) value = entry.substr(kName.size() + 1);
  }
  Config config;
  if (value && !value->empty()) {
    RONDE_RETURN_IF_ERROR(set_setting(config, kName, *value));
  }
  return config.freeze_timeout;
}

}  // namespace

Result<double> seconds_of(double given, const char* variable) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (given > 0 || text == nullptr || *text == '\0') return given;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end == '\0' && seconds > 0) return seconds;
  return refuse(fmt::format("{}={}: allowed are seconds above 0", variable, text));
}

int asked_slots(const RunRequest& request) {
  const ElasticRequest& elastic = request.elastic;
  for (const int slots : {elastic.slots_per_host, request.np, elastic.max_np}) {
    if (slots > 0) return slots;
  }
  return 0;
}

void add_elastic_options(CLI::App& app, ElasticRequest& request) {
  const auto count = CLI::Range(1, kMostRanks);
  app.add_option("--min-np,--min-num-proc", request.min_np,
                 "Elastic job: go on with this number of workers or more; default 1")
      ->check(count);
  app.add_option("--max-np,--max-num-proc", request.max_np,
                 "Elastic job: start no more workers than this; default: all slots")
      ->check(count);
  app.add_option("--host-discovery-script", request.discovery_script,
                 "Elastic job: program that prints HOST or HOST:SLOTS lines, run each second");
  app.add_option("--slots-per-host,--slots", request.slots_per_host,
                 "Slots of hosts that are listed without a number; default 1")
      ->check(count);
  app.add_option("--on-failure", request.on_failure,
                 fmt::format("Elastic job: respawn a failed worker on its host, or blacklist the "
                             "host; default: {}",
                             request.as_horovod ? "blacklist" : "respawn"))
      ->check(CLI::IsMember({"respawn", "blacklist"}));
  app.add_option(
         "--reset-limit", request.reset_limit,
         "Elastic job: it fails instead of changing its workers more often; default: any number")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--elastic-timeout", request.timeout_seconds,
                 "Elastic job: seconds to wait for enough workers; default 600")
      ->check(CLI::Range(0.1, 1e6));
  app.add_option(
         "--blacklist-cooldown-range", request.cooldown_seconds,
         "Elastic job: seconds MIN MAX for which a host stays blacklisted, with --on-failure "
         "blacklist; default: for good")
      ->expected(2)
      ->check(CLI::Range(0.0, 1e6));
}

Status check_elastic_options(const RunRequest& request) {
  const ElasticRequest& elastic = request.elastic;
  if (elastic.wanted()) {
    if (request.restarts > 0) {
      return refuse(
          "--restarts is for jobs that are not elastic: this one replaces failed workers by "
          "itself; "
          "--reset-limit bounds how often");
    }
    if (request.backend == "mpi") {
      return refuse(
          "--backend mpi cannot be elastic, as mpirun starts all ranks at once; allowed: "
          "the other backends");
    }
    RONDE_RETURN_IF_ERROR(check_sizes(elastic.min_np, request.np, elastic.max_np));
    RONDE_RETURN_IF_ERROR(check_cooldown(elastic));
    RONDE_RETURN_IF_ERROR(check_hostfile(request));
    return check_script(request);
  }
  const std::string option = elastic_only_option(elastic);
  if (option.empty()) return {};
  return refuse(option +
                " is for elastic jobs, which are those with --min-np, --max-np, "
                "--host-discovery-script or --on-failure");
}

Result<ElasticOptions> elastic_options(const RunRequest& request, const LaunchOptions& launch) {
  const ElasticRequest& elastic = request.elastic;
  ElasticOptions options;
  options.launch = launch;
  options.discovery = discovery_of(request);
  const int least = elastic.as_horovod ? std::max(1, request.np) : 1;
  options.director.min_workers = elastic.min_np > 0 ? elastic.min_np : least;
  options.director.max_workers = elastic.max_np;
  options.start_slots = std::max(options.director.min_workers, request.np);
  if (options.discovery.command.empty()) {
    if (elastic.max_np == 0 && !elastic.as_horovod) options.director.max_workers = request.np;
    options.hosts = {own_host(request)};
    if (!request.hosts.empty()) {
      RONDE_ASSIGN_OR_RETURN(options.hosts, parse_hosts(request.hosts, default_slots(elastic)));
    }
    RONDE_RETURN_IF_ERROR(check_slots(options.hosts, options.start_slots));
  }
  RONDE_ASSIGN_OR_RETURN(options.freeze_timeout, freeze_timeout(launch.environment));
  options.director.reset_limit = elastic.reset_limit;
  options.director.pauses = pauses_of(elastic);
  options.director.start_timeout = launch.start_timeout;
  options.director.await_new_hosts = elastic.as_horovod || request.horovod;
  RONDE_ASSIGN_OR_RETURN(const double timeout,
                         seconds_of(elastic.timeout_seconds, "HOROVOD_ELASTIC_TIMEOUT"));
  if (timeout > 0) options.director.elastic_timeout = to_ms(timeout);
  return options;
}

}  // namespace ronde
