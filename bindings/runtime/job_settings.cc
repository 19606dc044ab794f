#include "bindings/runtime/job_settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "backends/builtin.h"
#include "bindings/runtime/groups/rank_place.h"
#include "bindings/runtime/injection.h"
#include "bindings/runtime/submission_preparer.h"
#include "core/engine/engine.h"
#include "core/ports/topology.h"
#include "ops/selection/selector.h"

namespace ronde {
namespace {

constexpr int kMostAncestors = 64;

/// The process that has started another one; 0 if unknown.
pid_t parent_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t name_end = text.rfind(')');  // "PID (NAME) STATE PARENT ..."
  if (name_end == std::string::npos || name_end + 4 > text.size()) return 0;
  return static_cast<pid_t>(std::atoi(text.c_str() + name_end + 4));  // NOLINT(cert-err34-c)
}

/// "ronde run-agent", by any path.
bool is_agent(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  std::string program, word;
  std::getline(file, program, '\0');
  std::getline(file, word, '\0');
  return word == "run-agent" && program.substr(program.rfind('/') + 1) == "ronde";
}

std::optional<pid_t> agent_above() {
  pid_t pid = ::getppid();
  for (int i = 0; i < kMostAncestors && pid > 1; ++i, pid = parent_of(pid)) {
    if (is_agent(pid)) return pid;
  }
  return std::nullopt;
}

/// Where ranks outnumber cores, a spinning rank keeps others from running. The thread that receives
/// other hosts' frames needs a core too.
std::chrono::microseconds spin_of(const Config& config, const Topology& topology, unsigned cores) {
  const bool crowded = static_cast<unsigned>(rank_place(topology).local_size) > cores;
  const bool spreads = topology.host_count() > 1;
  return crowded || spreads ? std::chrono::microseconds(0) : config.spin;
}

}  // namespace

Status check_job_is_known(const Config& config, const Environment& environment) {
  constexpr std::array<const char*, 3> kOfARank = {"RONDE_RANK", "RONDE_SIZE", "RONDE_WORKER"};
  const bool known = std::ranges::any_of(
      kOfARank, [&](const char* name) { return environment(name).has_value(); });
  if (known || config.size > 1 || !config.job_id.empty()) return {};
  const auto agent = agent_above();
  if (!agent) return {};
  return {Code::kInvalidArgument,
          fmt::format("`ronde run` (agent of pid {}) has started this process, but its environment "
                      "has no RONDE_RANK and RONDE_SIZE: a program between has dropped them. Pass "
                      "all RONDE_* variables on, or set RONDE_RANK=0 and RONDE_SIZE=1 for a job of "
                      "this process alone",
                      *agent)};
}

Status check_named_choices(const Config& config) {
  RONDE_RETURN_IF_ERROR(check_backend(config.backend));
  RONDE_RETURN_IF_ERROR(check_algorithm(config.algorithm)
                            .with_context(fmt::format("RONDE_ALGORITHM=\"{}\"", config.algorithm)));
  RONDE_RETURN_IF_ERROR(asked_injections(config.inject).status());
  return job_compression(config.compression)
      .status()
      .with_context(fmt::format("RONDE_COMPRESSION=\"{}\"", config.compression));
}

EngineOptions engine_options(const Config& config, const Topology& topology, unsigned cores) {
  EngineOptions options;
  options.check_mean = config.check_mean;
  options.fusion_threshold_bytes = config.fusion_threshold_bytes;
  options.partition_bytes = config.partition_bytes;
  options.inline_bytes = config.inline_bytes;
  options.cache_capacity = config.cache_capacity;
  // An algorithm that is asked for runs all operations.
  options.payload_bytes = config.algorithm.empty() ? config.inline_payload_bytes : 0;
  options.spin = spin_of(config, topology, cores);
  options.stall = {.warning = config.stall_warning, .error = config.stall_error};
  return options;
}

}  // namespace ronde
