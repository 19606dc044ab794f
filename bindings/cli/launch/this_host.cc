#include "bindings/cli/launch/this_host.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "core/base/os/file_descriptor.h"
#include "core/base/os/interfaces.h"

namespace ronde {
namespace {

bool is_own_address(const Endpoint& address) {
  const std::vector<Interface> all = list_interfaces();
  return std::any_of(all.begin(), all.end(),
                     [&](const Interface& each) { return each.address.same_host(address); });
}

/// True if a socket can listen there now.
bool can_bind(const Endpoint& address) {
  const FileDescriptor fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd.valid() && ::bind(fd.get(), address.raw(), address.length) == 0;
}

}  // namespace

std::string describe_interfaces() {
  std::string text;
  for (const Interface& each : list_interfaces()) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", each.name, each.address.host());
  }
  return text;
}

bool is_this_host(const std::string& name) {
  if (name == "localhost" || name == host_name()) return true;
  const auto found = resolve_host(name);
  return found.ok() && std::any_of(found->begin(), found->end(), [](const Endpoint& address) {
           return address.is_loopback() || is_own_address(address);
         });
}

Result<std::string> chosen_address(const std::string& interface) {
  const auto number = numeric_host(interface);
  if (number.ok() && is_own_address(*number)) return interface;
  if (const auto found = interface_address(interface)) return found->host();
  return Status(Code::kInvalidArgument,
                fmt::format("there is no network interface or own address \"{}\" on {}; there are: "
                            "{}",
                            interface, host_name(), describe_interfaces()));
}

Result<std::string> address_towards(const std::string& name) {
  RONDE_ASSIGN_OR_RETURN(const std::vector<Endpoint> found, resolve_host(name));
  const Endpoint there = found.front().with_port(9);
  const FileDescriptor fd(::socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), there.raw(), there.length) != 0) {
    return errno_status(fmt::format("no route from {} to host \"{}\"", host_name(), name));
  }
  RONDE_ASSIGN_OR_RETURN(const Endpoint here, local_endpoint(fd.get()));
  return here.host();
}

Result<int> free_port(const std::string& address) {
  constexpr int kFirst = 20000;
  constexpr int kLast = 32000;
  std::random_device random;
  std::uniform_int_distribution<std::uint16_t> pick(kFirst, kLast);
  RONDE_ASSIGN_OR_RETURN(const Endpoint host, numeric_host(address));
  for (int attempt = 0; attempt < 200; ++attempt) {
    const std::uint16_t port = pick(random);
    if (can_bind(host.with_port(port))) return port;
  }
  return Status(Code::kResourceExhausted,
                fmt::format("found no free TCP port on {} from {} to {}", address, kFirst, kLast));
}

std::string join_host_port(const std::string& address, int port) {
  const bool v6 = address.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

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
