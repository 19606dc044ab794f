#include "bindings/cli/launch/job_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>

namespace ronde {
namespace {

constexpr std::size_t kMostNamed = 8;

}  // namespace

std::string name_ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const bool all = ranks.size() <= kMostNamed;
  const auto listed =
      ranks.begin() + static_cast<std::ptrdiff_t>(all ? ranks.size() - 1 : kMostNamed / 2);
  const std::string last =
      all ? std::to_string(ranks.back()) : fmt::format("{} more", ranks.end() - listed);
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), listed, ", "), last);
}

void send_to_all(std::vector<Host>& hosts, const std::string& frame, const Host* but) {
  for (Host& host : hosts) {
    if (&host != but) host.link.send(frame);
  }
}

void reap_agents(const std::vector<Host>& hosts) {
  for (const Host& host : hosts) {
    if (host.link.pid() > 0) ::waitpid(host.link.pid(), nullptr, 0);
  }
}

std::string still_running(const std::vector<Host>& hosts) {
  std::vector<int> running;
  std::vector<int> ended;
  for (const Host& host : hosts) {
    for (int i = 0; i < host.ranks->ranks; ++i) {
      const int rank = host.ranks->first_rank + i;
      (host.unfinished.contains(rank) ? running : ended).push_back(rank);
    }
  }
  if (running.empty() || ended.empty()) return {};
  return fmt::format("{} {} ended, {} still {}", name_ranks(ended),
                     ended.size() == 1 ? "has" : "have", name_ranks(running),
                     running.size() == 1 ? "runs" : "run");
}

}  // namespace ronde
