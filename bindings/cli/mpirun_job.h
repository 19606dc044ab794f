// `ronde run --backend mpi`: mpirun starts the ranks, as MPI works only in such processes.
#pragma once

#include "bindings/cli/commands.h"
#include "bindings/cli/launch/launcher.h"

namespace ronde {

/// Makes the job one mpirun on this host if its backend is MPI. Blocks until mpirun has printed its
/// version. Errors: kInvalidArgument for arguments of mpirun in another job, and those of
/// mpirun_command().
Status start_through_mpirun(const RunRequest& request, LaunchOptions& options);

}  // namespace ronde
