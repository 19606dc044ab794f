// The cores and OpenMP threads of each rank on a host.
#pragma once

#include <sched.h>

#include <optional>
#include <vector>

namespace ronde {

/// The cores that this process may use.
cpu_set_t allowed_cpus();

/// Threads for each of `ranks` ranks that share `cores` cores: at least one.
int omp_threads(int cores, int ranks) noexcept;

/// The cores of each NUMA node of this host among `allowed`, nodes without any left out.
std::vector<cpu_set_t> numa_nodes(const cpu_set_t& allowed);

/// The cores that local rank `index` of `ranks` is bound to, or nothing. Ranks are spread over the
/// NUMA nodes, so that a rank's memory is near; inside a node the scheduler does better than we.
/// Nothing on one node, or where the ranks outnumber the cores.
std::optional<cpu_set_t> cpus_for(int index, int ranks, const std::vector<cpu_set_t>& nodes);

}  // namespace ronde
