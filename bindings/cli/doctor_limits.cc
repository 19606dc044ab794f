#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "bindings/cli/doctor.h"
#include "bindings/cli/launch/this_host.h"

namespace ronde {
namespace {

constexpr std::uint64_t kSmallShm = std::uint64_t{256} << 20;
constexpr rlim_t kFewFiles = 1024;

std::string limit_text(rlim_t value, bool bytes) {
  if (value == RLIM_INFINITY) return "unlimited";
  return bytes ? bytes_text(value) : fmt::to_string(value);
}

Limit shared_memory() {
  struct statvfs info {};
  if (::statvfs("/dev/shm", &info) != 0) {
    return {"/dev/shm: there is none; ranks of this host use slower ways", true};
  }
  const std::uint64_t total = std::uint64_t{info.f_blocks} * info.f_frsize;
  const std::uint64_t left = std::uint64_t{info.f_bavail} * info.f_frsize;
  const bool small = left < kSmallShm;
  return {fmt::format("/dev/shm: {} free of {}{}", bytes_text(left), bytes_text(total),
                      small ? "; small: in a container, raise it with --shm-size" : ""),
          small};
}

Limit resource(const char* name, __rlimit_resource_t which, bool bytes, rlim_t enough) {
  rlimit limit{};
  ::getrlimit(which, &limit);
  const bool bites = limit.rlim_cur < enough;
  return {fmt::format("{}: {} (may be raised to {}){}", name, limit_text(limit.rlim_cur, bytes),
                      limit_text(limit.rlim_max, bytes), bites ? "; few: see ulimit" : ""),
          bites};
}

Limit peer_memory() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  file >> scope;
  if (scope == 0 || ::geteuid() == 0) {
    return {"copying from and to peers' memory (process_vm_readv): not restricted", false};
  }
  return {fmt::format("copying from and to peers' memory (process_vm_readv): restricted by "
                      "kernel.yama.ptrace_scope = {}; large tensors are staged instead",
                      scope),
          false};
}

Limit cores() {
  const cpu_set_t allowed = allowed_cpus();
  const std::size_t nodes = numa_nodes(allowed).size();
  return {fmt::format("cores: {} of {} may be used, on {} NUMA node{}", CPU_COUNT(&allowed),
                      ::sysconf(_SC_NPROCESSORS_ONLN), nodes, nodes == 1 ? "" : "s"),
          false};
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  const std::string digits = fmt::format("{:.1f}", value);
  const bool whole = digits.substr(digits.size() - 2) == ".0";
  return fmt::format("{} {}", whole ? digits.substr(0, digits.size() - 2) : digits, kUnits[unit]);
}

std::vector<Limit> machine_limits() {
  return {shared_memory(), resource("open files", RLIMIT_NOFILE, false, kFewFiles),
          resource("locked memory", RLIMIT_MEMLOCK, true, 0), peer_memory(), cores()};
}

}  // namespace ronde
