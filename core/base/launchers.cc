#include "core/base/launchers.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "core/base/os/interfaces.h"
#include "core/base/setting_kinds.h"
#include "core/base/slurm.h"

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

Status check_meeting_of_hosts(const Config& config, const Environment& environment) {
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

}  // namespace ronde
