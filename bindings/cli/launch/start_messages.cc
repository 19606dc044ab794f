#include "bindings/cli/launch/start_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ronde {
namespace {

void add_variables(EnvironmentList& list, const EnvironmentList& more) {
  list.insert(list.end(), more.begin(), more.end());
}

StartMessage command_message(const LaunchOptions& options) {
  StartMessage start;
  start.directory = options.directory;
  start.command = options.command;
  return start;
}

/// False where the user says by --env where all ranks meet.
bool may_use_tree(const LaunchOptions& options) {
  return std::ranges::none_of(options.environment, [](const std::string& entry) {
    return entry.starts_with("RONDE_RENDEZVOUS=");
  });
}

}  // namespace

std::vector<StartMessage> start_messages(const LaunchOptions& options,
                                         const std::vector<Rendezvous>& places) {
  StartMessage common = command_message(options);
  common.secret = random_hex(32);
  common.stdin_rank = options.stdin_rank;
  const EnvironmentList shared =
      job_environment(random_hex(8), places.front(), options.hosts.size() > 1);
  std::vector<std::string> trees;
  if (places.size() > 1 && may_use_tree(options)) trees = rendezvous_trees(options.hosts, places);
  std::vector<StartMessage> messages;
  for (std::size_t index = 0; index < options.hosts.size(); ++index) {
    const HostRanks& host = options.hosts[index];
    StartMessage& start = messages.emplace_back(common);
    if (!host.name.empty()) start.environment = forwarded_environment();
    add_variables(start.environment, shared);
    if (!trees.empty()) start.environment.push_back("RONDE_RENDEZVOUS_TREE=" + trees[index]);
    for (int local = 0; local < host.ranks; ++local) {
      EnvironmentList list = rank_environment(options.hosts, index, local);
      add_variables(list, options.environment);
      start.ranks.push_back({host.first_rank + local, std::move(list)});
    }
  }
  return messages;
}

StartMessage mpirun_start_message(const LaunchOptions& options, const Rendezvous& rendezvous) {
  StartMessage start = command_message(options);
  EnvironmentList list = {"MASTER_ADDR=" + rendezvous.address,
                          fmt::format("MASTER_PORT={}", rendezvous.master_port)};
  add_variables(list, options.environment);
  start.ranks.push_back({0, std::move(list)});
  return start;
}

}  // namespace ronde
