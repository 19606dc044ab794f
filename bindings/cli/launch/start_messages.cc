#include "bindings/cli/launch/start_messages.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace ronde {
namespace {

void add_variables(EnvironmentList& list, const EnvironmentList& more) {
  list.insert(list.end(), more.begin(), more.end());
}

StartMessage command_message(const LaunchOptions& options) {
  StartMessage start;
  start.directory = std::filesystem::current_path().string();
  start.command = options.command;
  return start;
}

}  // namespace

std::vector<StartMessage> start_messages(const LaunchOptions& options,
                                         const Rendezvous& rendezvous) {
  StartMessage common = command_message(options);
  common.secret = random_hex(32);
  common.stdin_rank = options.stdin_rank;
  const EnvironmentList shared =
      job_environment(random_hex(8), rendezvous, options.hosts.size() > 1);
  std::vector<StartMessage> messages;
  for (std::size_t index = 0; index < options.hosts.size(); ++index) {
    const HostRanks& host = options.hosts[index];
    StartMessage& start = messages.emplace_back(common);
    if (!host.name.empty()) start.environment = forwarded_environment();
    add_variables(start.environment, shared);
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
