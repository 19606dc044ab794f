// Starts the ranks of a measurement on this host.
#pragma once

#include <string>
#include <vector>

namespace ronde::bench {

/// Runs `command` as `np` ranks of one job and returns the exit status of the first that failed,
/// or 0. With `by_mpirun` the ranks are mpirun's, not bound to cores. Standard output and error
/// are shared. Blocks; leaves no process behind, killed or not. Threads: call from the only one.
int spawn_ranks(const std::vector<std::string>& command, int np, bool by_mpirun);

}  // namespace ronde::bench
