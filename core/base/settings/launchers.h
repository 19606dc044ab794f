// The jobs of other launchers: their variables (mpirun, srun, torchrun), and the nodes of an
// allocation of Slurm. Values in, values out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/settings/config.h"
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
Status check_rendezvous(const Config& config, const Environment& environment);

/// A sentence for the log of a process that no launcher has started, where one probably should: the
/// script of a batch job with several tasks calls no srun.
std::optional<std::string> describe_missing_launcher(const Environment& environment);

/// "17.0": job and step of the task that this process is. Nothing where no srun has started it: in
/// a batch script, or in the shell that salloc starts.
std::optional<std::string> slurm_step_name(const Environment& environment);

/// The number of the step's tasks, as Slurm writes it.
std::optional<std::string> slurm_step_tasks(const Environment& environment);

/// Fills in rank, size and job id of a task. On several nodes also where rank 0 listens: on the
/// step's first node, at ports that follow from job and step, or that srun has reserved.
/// Rank 0 hands out a secret where none is set.
/// Errors: kInvalidArgument naming the variable, its value and what is allowed.
Status read_slurm_step(Config& config, const Environment& environment);

/// The nodes of the allocation with their tasks, as "n1:2,n2:2"; empty outside of one, and in a
/// task of a step. Where Slurm names no tasks: one for each core of a node alone, else one a node.
/// A node alone that this process runs on is "localhost". It takes as many ranks as are `asked` for
/// (0: none are), as without an allocation.
/// Errors: kInvalidArgument naming the variable, its value and what is allowed.
Result<std::string> slurm_hosts(const Environment& environment, int asked = 0);

/// The names that a node list such as "n[1-4,07],m01" stands for, in order.
/// Errors: kInvalidArgument with the list; more than 65,536 names are none.
Result<std::vector<std::string>> expand_nodelist(std::string_view list);

/// The numbers that a list such as "2(x3),1" stands for: 2, 2, 2, 1, as in SLURM_TASKS_PER_NODE.
/// Errors: as expand_nodelist.
Result<std::vector<int>> expand_counts(std::string_view list);

}  // namespace ronde
