#include "backends/net/mesh/connection_budget.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "core/base/os/folders.h"

namespace ronde::net {

namespace {

constexpr std::uint64_t kControlLinks = 12;
constexpr std::uint64_t kHandshakes = 64;
constexpr std::uint64_t kOtherFiles = 64;

std::uint64_t open_now() { return paths_in("/proc/self/fd").size(); }

}  // namespace

std::uint64_t descriptors_needed(int peers, int max_connections) {
  const int data = max_connections > 0 ? std::min(peers, max_connections) : peers;
  return open_now() + kControlLinks + static_cast<std::uint64_t>(data) + kHandshakes + kOtherFiles;
}

Status provide_descriptors(std::uint64_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return {};
  limit.rlim_cur = std::min<rlim_t>(needed, limit.rlim_max);
  const bool raised = ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
  if (raised && limit.rlim_cur >= needed) return {};
  return {Code::kResourceExhausted,
          fmt::format("this rank needs up to {} open files, mostly connections with ranks of other "
                      "hosts, but its hard limit is {}; raise it (ulimit -Hn {}, LimitNOFILE= of a "
                      "service, or --ulimit nofile={} of a container), or let it have fewer "
                      "connections by RONDE_MAX_CONNECTIONS",
                      needed, limit.rlim_max, needed, needed)};
}

}  // namespace ronde::net
