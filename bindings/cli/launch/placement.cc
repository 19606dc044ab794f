#include "bindings/cli/launch/placement.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace ronde {
namespace {

/// Reads "0-3,8" as Linux writes it. A file that is not there gives none.
cpu_set_t read_cpu_list(const std::string& path) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  std::ifstream file(path);
  for (std::size_t first = 0; file >> first;) {
    std::size_t last = first;
    if (file.peek() == '-') file.ignore() >> last;
    for (std::size_t cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &cpus);
    if (file.peek() == ',') file.ignore();
  }
  return cpus;
}

}  // namespace

cpu_set_t allowed_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  ::sched_getaffinity(0, sizeof(cpus), &cpus);
  return cpus;
}

int omp_threads(int cores, int ranks) noexcept { return std::max(1, cores / std::max(1, ranks)); }

std::vector<cpu_set_t> numa_nodes(const cpu_set_t& allowed) {
  std::vector<cpu_set_t> nodes;
  const cpu_set_t online = read_cpu_list("/sys/devices/system/node/online");
  for (std::size_t node = 0; node < CPU_SETSIZE; ++node) {
    if (!CPU_ISSET(node, &online)) continue;
    cpu_set_t cpus =
        read_cpu_list("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
    CPU_AND(&cpus, &cpus, &allowed);
    if (CPU_COUNT(&cpus) > 0) nodes.push_back(cpus);
  }
  return nodes;
}

std::optional<cpu_set_t> cpus_for(int index, int ranks, const std::vector<cpu_set_t>& nodes) {
  int cores = 0;
  for (const cpu_set_t& node : nodes) cores += CPU_COUNT(&node);
  if (nodes.size() < 2 || ranks < 2 || ranks > cores) return std::nullopt;
  const auto position = static_cast<std::size_t>(index) * nodes.size();
  return nodes[position / static_cast<std::size_t>(ranks)];
}

}  // namespace ronde
