// This host: its addresses and free ports, and the cores of its ranks.
#pragma once

#include <sched.h>

#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// True if `name` is localhost, this host's name, or resolves to one of its addresses or to
/// 127.0.0.0/8.
/// Blocks (name service).
bool is_this_host(const std::string& name);

/// The numeric address of an interface ("eth0"), or `interface` itself where it is an address of
/// this host. Errors: kInvalidArgument naming the interfaces that there are.
Result<std::string> chosen_address(const std::string& interface);

/// "lo (127.0.0.1), eth0 (10.0.0.5), ...": every interface that has an address, for people.
std::string describe_interfaces();

/// The address of this host from which packets towards `name` leave; sends nothing.
/// Errors: kUnavailable.
Result<std::string> address_towards(const std::string& name);

/// A TCP port on the numeric `address` that nobody listens on now. It lies below the range from
/// which the kernel chooses ports. Errors: kResourceExhausted.
Result<int> free_port(const std::string& address);

/// "1.2.3.4:5" or "[::1]:5".
std::string join_host_port(const std::string& address, int port);

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
