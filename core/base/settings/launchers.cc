#include "core/base/settings/launchers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/base/join_text.h"
#include "core/base/os/interfaces.h"
#include "core/base/settings/setting_kinds.h"

namespace ronde {
namespace {

/// The variables in which a launcher describes the job.
struct Launcher {
  const char* rank;
  const char* size;
  const char* job_id;
  const char* local_size;  ///< The number of ranks on this host.
};
constexpr Launcher kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE",
                               "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Launcher kPmi = {"PMI_RANK", "PMI_SIZE", "PMI_JOBID", "MPI_LOCALNRANKS"};
constexpr Launcher kTorchrun = {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "LOCAL_WORLD_SIZE"};

/// Names one attempt of torchrun, with its number of agents; empty without torchrun. Each agent
/// counts its own restarts, so that only a single agent's count is the same on all ranks.
std::string torchrun_attempt(const Environment& environment) {
  const auto restarts = environment("TORCHELASTIC_RESTART_COUNT");
  if (!restarts) return {};
  const std::string agents = environment("GROUP_WORLD_SIZE").value_or("1");
  return fmt::format("-{}-{}", agents, agents == "1" ? *restarts : "");
}

/// A launcher's job id alone may be the same for two jobs ("none" under torchrun): the rendezvous
/// port tells them apart. The size and the attempt tell apart the jobs of one torchrun.
std::string job_id_of(const Launcher& launcher, const Environment& environment, int size) {
  return fmt::format("{}-{}-{}-{}{}", launcher.rank, environment(launcher.job_id).value_or(""),
                     environment("MASTER_PORT").value_or(""), size, torchrun_attempt(environment));
}

bool has_started(const Launcher& launcher, const Environment& environment) {
  return environment(launcher.rank) && environment(launcher.size);
}

/// With `srun --mpi=pmi2` Slurm sets the variables of PMI, too.
bool pmi_is_slurms(const Environment& environment) {
  return environment("PMI_JOBID") == slurm_step_name(environment);
}

/// Under `srun torchrun` Slurm's variables describe torchrun's agents, not the ranks. Launchers
/// without a run id are known by ranks of their own.
bool torchrun_is_inner(const Environment& environment) {
  if (environment("TORCHELASTIC_RUN_ID")) return true;
  if (!environment("LOCAL_RANK") || !has_started(kTorchrun, environment)) return false;
  return environment("WORLD_SIZE") != slurm_step_tasks(environment) ||
         environment("RANK") != environment("SLURM_PROCID");
}

Status read_job(Config& config, const Launcher& launcher, const Environment& environment) {
  RONDE_RETURN_IF_ERROR(read_place(config, {launcher.rank, environment(launcher.rank)},
                                   {launcher.size, environment(launcher.size)}));
  if (config.job_id.empty()) config.job_id = job_id_of(launcher, environment, config.size);
  return {};
}

constexpr std::size_t kMostNodes = 65'536;
constexpr std::int64_t kFirstSpecialStep = 4'294'967'280;  // batch script, salloc's shell, ...

// Below the ports that the kernel gives to outgoing connections.
constexpr std::uint32_t kFirstPort = 12'000;
constexpr std::uint32_t kPorts = 16'000;
constexpr int kPortsToTry = 4;

Status bad_list(std::string_view list, std::string_view why) {
  return {Code::kInvalidArgument,
          fmt::format("\"{}\" is no list of Slurm: {}; allowed: n[1-4,07],m01", list, why)};
}

/// Cuts `text` at commas outside of brackets.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += c == '[' ? 1 : 0;
    depth -= c == ']' ? 1 : 0;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    parts.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  return parts;
}

std::optional<std::int64_t> number(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return std::nullopt;
  return parse_integer(text, 0, 999'999'999'999);
}

/// "07-12" as 07, 08, ..., 12: all of the width of the first.
bool expand_range(std::string_view range, std::vector<std::string>& out) {
  const std::size_t dash = range.find('-');
  const std::string_view low_text = range.substr(0, dash);
  const auto low = number(low_text);
  const auto high = dash == range.npos ? low : number(range.substr(dash + 1));
  if (!low || !high || *high < *low) return false;
  if (*high - *low >= static_cast<std::int64_t>(kMostNodes)) return false;
  for (std::int64_t i = *low; i <= *high; ++i) {
    out.push_back(fmt::format("{:0{}}", i, low_text.size()));
  }
  return out.size() <= kMostNodes;
}

/// "n[1-2]r[1-3]" as n1r1, n1r2, ...: the last bracket changes first.
bool expand_name(std::string_view name, const std::string& before, std::vector<std::string>& out) {
  const std::size_t open = name.find('[');
  if (open == name.npos) {
    if (name.find(']') != name.npos || before.size() + name.size() == 0) return false;
    out.push_back(before + std::string(name));
    return out.size() <= kMostNodes;
  }
  const std::size_t close = name.find(']', open);
  if (close == name.npos) return false;
  std::vector<std::string> numbers;
  for (const std::string_view range : split_list(name.substr(open + 1, close - open - 1))) {
    if (!expand_range(range, numbers)) return false;
  }
  const std::string prefix = before + std::string(name.substr(0, open));
  return std::ranges::all_of(numbers, [&](const std::string& each) {
    return expand_name(name.substr(close + 1), prefix + each, out);
  });
}

std::uint32_t hash(std::string_view text) {
  std::uint32_t value = 2'166'136'261U;  // FNV-1a
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return value;
}

/// The ports that rank 0 tries in turn. Another program, or rank 0 of another step, may have one.
Result<std::vector<int>> ports_of(const std::string& step, const Environment& environment) {
  std::vector<int> ports;
  if (const auto reserved = environment("SLURM_STEP_RESV_PORTS")) {
    std::vector<std::string> numbers;
    for (const std::string_view range : split_list(*reserved)) {
      if (!expand_range(range, numbers)) break;
    }
    for (const std::string& each : numbers) {
      const auto port = parse_integer(each, 1, 65'535);
      if (port) ports.push_back(static_cast<int>(*port));
    }
    if (ports.empty() || ports.size() != numbers.size()) {
      return bad_value("SLURM_STEP_RESV_PORTS", *reserved, "ports such as 12000-12003");
    }
    return ports;
  }
  for (int i = 0; i < kPortsToTry; ++i) {
    const std::uint32_t mixed = hash(fmt::format("{}/{}", step, i));
    ports.push_back(static_cast<int>(kFirstPort + (mixed ^ (mixed >> 16U)) % kPorts));
  }
  return ports;
}

/// Folders that are perhaps the same on all nodes.
std::vector<std::string> shared_folders(const Environment& environment) {
  std::vector<std::string> folders;
  for (const char* name : {"HOME", "SLURM_SUBMIT_DIR"}) {
    const std::string folder = environment(name).value_or("");
    const bool known = std::ranges::find(folders, folder) != folders.end();
    if (folder.starts_with('/') && folder != "/" && !known) folders.push_back(folder);
  }
  return folders;
}

/// Reads the place and the secret by which tasks of several nodes meet.
Status read_rendezvous(Config& config, const std::string& step, const Environment& environment) {
  const std::string list = environment("SLURM_STEP_NODELIST").value_or("");
  auto nodes = expand_nodelist(list);
  if (!nodes.ok()) return bad_value("SLURM_STEP_NODELIST", list, "node lists such as n[1-4,07]");
  if (nodes->size() == 1) return {};
  RONDE_ASSIGN_OR_RETURN(const std::vector<int> ports, ports_of(step, environment));
  if (config.rendezvous.empty()) {
    config.rendezvous = fmt::format("{}:{}", nodes->front(), join_text(ports, ","));
    config.rendezvous_neighbour = (*nodes)[1];
  }
  config.hands_out_secret = config.secret_file.empty() && config.secret_fd < 0;
  config.shared_folders = shared_folders(environment);
  return {};
}

/// The number that the variable holds, or nothing where it is not set.
Result<std::optional<int>> count_in(const char* name, const Environment& environment) {
  const auto text = environment(name);
  if (!text) return std::optional<int>();
  const auto value = number(*text);
  if (value && *value >= 1 && *value <= std::numeric_limits<int>::max()) {
    return std::optional(static_cast<int>(*value));
  }
  return bad_value(name, *text, "a whole number from 1 on");
}

/// The tasks of a node alone, of which Slurm names no list.
Result<int> tasks_of_one_node(const Environment& environment) {
  RONDE_ASSIGN_OR_RETURN(const auto tasks, count_in("SLURM_NTASKS", environment));
  if (tasks) return *tasks;
  RONDE_ASSIGN_OR_RETURN(const auto cores, count_in("SLURM_CPUS_ON_NODE", environment));
  RONDE_ASSIGN_OR_RETURN(const auto each, count_in("SLURM_CPUS_PER_TASK", environment));
  return std::max(1, cores.value_or(1) / each.value_or(1));
}

/// The tasks of each node of the allocation.
Result<std::vector<int>> tasks_of_nodes(std::size_t nodes, const Environment& environment) {
  const std::string list = environment("SLURM_TASKS_PER_NODE").value_or("");
  if (!list.empty()) {
    auto given = expand_counts(list);
    if (given.ok() && given->size() == nodes) return given;
    return bad_value("SLURM_TASKS_PER_NODE", list,
                     fmt::format("{} numbers such as 2(x3),1", nodes));
  }
  if (nodes > 1) return std::vector<int>(nodes, 1);
  RONDE_ASSIGN_OR_RETURN(const int tasks, tasks_of_one_node(environment));
  return std::vector<int>{tasks};
}

}  // namespace

Status read_place(Config& config, const Variable& rank, const Variable& size) {
  const auto size_value = parse_integer(*size.value, 1, std::numeric_limits<int>::max());
  if (!size_value) return bad_value(size.name, *size.value, "whole numbers from 1");
  const auto rank_value = parse_integer(*rank.value, 0, *size_value - 1);
  if (!rank_value) {
    return bad_value(rank.name, *rank.value,
                     fmt::format("whole numbers from 0 to {}", *size_value - 1));
  }
  config.rank = static_cast<int>(*rank_value);
  config.size = static_cast<int>(*size_value);
  return {};
}

Status read_launched_job(Config& config, const Environment& environment) {
  const bool slurm = slurm_step_name(environment).has_value();
  if (has_started(kOpenMpi, environment)) return read_job(config, kOpenMpi, environment);
  if (has_started(kPmi, environment) && !(slurm && pmi_is_slurms(environment))) {
    return read_job(config, kPmi, environment);
  }
  if (slurm && !torchrun_is_inner(environment)) return read_slurm_step(config, environment);
  if (has_started(kTorchrun, environment)) return read_job(config, kTorchrun, environment);
  return {};
}

Status check_rendezvous(const Config& config, const Environment& environment) {
  if (!config.rendezvous.empty() || environment("RONDE_SIZE")) return {};
  for (const Launcher* launcher : {&kOpenMpi, &kPmi}) {
    if (!has_started(*launcher, environment)) continue;
    const int most = std::numeric_limits<int>::max();
    const auto here = parse_integer(environment(launcher->local_size).value_or(""), 1, most);
    if (!here || config.size <= *here) return {};
    return {Code::kInvalidArgument,
            fmt::format("{} of the {} ranks run on {}, the others on other hosts, and mpirun tells "
                        "no way to meet: set RONDE_RENDEZVOUS=ADDRESS:PORT of rank 0's host and "
                        "RONDE_SECRET_FILE, alike on all hosts",
                        *here, config.size, host_name())};
  }
  return {};
}

std::optional<std::string> describe_missing_launcher(const Environment& environment) {
  const auto tasks = environment("SLURM_NTASKS");
  if (!environment("SLURM_JOB_ID") || !tasks || *tasks == "1") return std::nullopt;
  return fmt::format(
      "this Slurm job has {} tasks (SLURM_NTASKS), but this process is a job of one rank: the "
      "batch script has not started it by srun; write \"srun\" before the command",
      *tasks);
}

std::optional<std::string> slurm_step_name(const Environment& environment) {
  const auto job = environment("SLURM_JOB_ID");
  const auto step = environment("SLURM_STEP_ID");
  if (!job || !step || !environment("SLURM_PROCID")) return std::nullopt;
  const auto value = number(*step);
  if (value && *value >= kFirstSpecialStep) return std::nullopt;
  return *job + "." + *step;
}

std::optional<std::string> slurm_step_tasks(const Environment& environment) {
  auto tasks = environment("SLURM_STEP_NUM_TASKS");
  return tasks ? tasks : environment("SLURM_NTASKS");
}

Status read_slurm_step(Config& config, const Environment& environment) {
  const bool own = environment("SLURM_STEP_NUM_TASKS").has_value();
  const Variable size{own ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                      slurm_step_tasks(environment).value_or("")};
  RONDE_RETURN_IF_ERROR(read_place(config, {"SLURM_PROCID", environment("SLURM_PROCID")}, size));
  // A job that is requeued has the same number, and its steps too.
  const std::string step =
      fmt::format("slurm-{}-{}-{}-{}", environment("SLURM_CLUSTER_NAME").value_or(""),
                  slurm_step_name(environment).value_or(""),
                  environment("SLURM_RESTART_COUNT").value_or("0"), config.size);
  if (config.job_id.empty()) config.job_id = step;
  return config.size == 1 ? Status() : read_rendezvous(config, step, environment);
}

Result<std::string> slurm_hosts(const Environment& environment, int asked) {
  const auto list = environment("SLURM_JOB_NODELIST");
  if (!list || slurm_step_name(environment)) return std::string();
  auto nodes = expand_nodelist(*list);
  if (!nodes.ok()) return bad_value("SLURM_JOB_NODELIST", *list, "node lists such as n[1-4,07]");
  RONDE_ASSIGN_OR_RETURN(std::vector<int> counts, tasks_of_nodes(nodes->size(), environment));
  if (nodes->size() == 1 && asked > 0) counts.front() = asked;
  if (nodes->size() == 1 && environment("SLURMD_NODENAME") == nodes->front()) {
    nodes->front() = "localhost";
  }
  std::vector<std::string> hosts;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    hosts.push_back(fmt::format("{}:{}", (*nodes)[i], counts[i]));
  }
  return join_text(hosts, ",");
}

Result<std::vector<std::string>> expand_nodelist(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view part : split_list(list)) {
    if (!expand_name(part, "", names)) return bad_list(list, fmt::format("\"{}\"", part));
  }
  return names;
}

Result<std::vector<int>> expand_counts(std::string_view list) {
  std::vector<int> counts;
  for (std::string_view part : split_list(list)) {
    std::int64_t times = 1;
    if (const std::size_t open = part.find("(x"); open != part.npos && part.ends_with(')')) {
      times = number(part.substr(open + 2, part.size() - open - 3)).value_or(0);
      part = part.substr(0, open);
    }
    const auto count = number(part);
    const bool good = count && *count <= std::numeric_limits<int>::max() && times >= 1 &&
                      counts.size() + static_cast<std::size_t>(times) <= kMostNodes;
    if (!good) return bad_list(list, "numbers such as 2(x3),1");
    counts.insert(counts.end(), static_cast<std::size_t>(times), static_cast<int>(*count));
  }
  return counts;
}

}  // namespace ronde
