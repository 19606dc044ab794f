// Reads the job from the variables of mpirun, srun or torchrun. slurm.h knows the rest about Slurm.
#pragma once

#include <optional>
#include <string>

#include "core/base/config.h"
#include "core/base/status.h"

namespace ronde {

/// A variable, and its value where it is set.
struct Variable {
  const char* name;
  std::optional<std::string> value;
};

/// Fills in config.rank and config.size. Both variables are set.
/// Errors: kInvalidArgument naming the variable, its value and what is allowed.
Status read_place(Config& config, const Variable& rank, const Variable& size);

/// Fills in rank, size and job of a process that another launcher than `ronde run` has started.
/// Of nested launchers the innermost counts. Leaves `config` as it is where there is none.
/// Errors: kInvalidArgument naming the variable, its value and what is allowed.
Status read_launched_job(Config& config, const Environment& environment);

/// Errors: kInvalidArgument with a remedy if mpirun has started this job's ranks on several hosts,
/// but no setting says where they meet.
Status check_meeting_of_hosts(const Config& config, const Environment& environment);

/// A sentence for the log of a process that no launcher has started, where one probably should: the
/// script of a batch job with several tasks calls no srun.
std::optional<std::string> describe_missing_launcher(const Environment& environment);

}  // namespace ronde
