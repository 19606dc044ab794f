#include "core/elastic/unreachable.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ronde::elastic {
namespace {

/// How often ranks of one host missed ranks of another, by both names.
using Cuts = std::map<std::pair<std::string, std::string>, int>;

Cuts cuts_between_hosts(const Roster& roster, EpochId epoch, Missing how) {
  std::map<WorkerId, std::string> places;
  for (const auto& [id, worker] : roster) places.emplace(id, worker.host);
  Cuts cuts;
  for (const auto& [id, worker] : roster) {
    const bool missed =
        worker.ready.began == (how == Missing::kLater) && worker.ready.last_epoch == epoch;
    if (worker.state != RosterWorker::State::kReady || !missed) continue;
    for (const WorkerId suspect : worker.ready.suspects) {
      const auto other = places.find(suspect);
      if (other == places.end() || other->second == worker.host) continue;
      ++cuts[std::minmax(worker.host, other->second)];
    }
  }
  return cuts;
}

/// The host with most cuts; empty if no host of `hosts` has any.
std::string worst_host(const Cuts& cuts, const std::vector<std::string>& hosts) {
  std::map<std::string, int> misses;
  for (const auto& [pair, number] : cuts) {
    misses[pair.first] += number;
    misses[pair.second] += number;
  }
  std::string worst;
  for (const std::string& host : hosts) {
    if (misses.contains(host) && (worst.empty() || misses[host] >= misses[worst])) worst = host;
  }
  return worst;
}

}  // namespace

std::vector<std::string> unreachable_hosts(const Roster& roster,
                                           const std::vector<std::string>& hosts, EpochId epoch,
                                           Missing how) {
  Cuts cuts = cuts_between_hosts(roster, epoch, how);
  std::vector<std::string> given_up;
  while (!cuts.empty()) {
    const std::string worst = worst_host(cuts, hosts);
    if (worst.empty()) break;
    given_up.push_back(worst);
    std::erase_if(cuts, [&](const auto& cut) {
      return cut.first.first == worst || cut.first.second == worst;
    });
  }
  return given_up;
}

}  // namespace ronde::elastic
