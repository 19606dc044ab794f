#include "bindings/cli/launch/job.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/this_host.h"
#include "bindings/descriptors/passed.h"
#include "bindings/exit_log/exit_log.h"
#include "bindings/exit_log/join_socket.h"
#include "core/base/join_text.h"
#include "core/elastic/notes.h"
#include "core/protocol/tree.h"

namespace ronde {
namespace {

constexpr std::array<std::string_view, 9> kForwardedNames = {
    "PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LANG",
    "TZ",   "PYTHONPATH",      "LD_PRELOAD",  "LANGUAGE"};
constexpr std::array<std::string_view, 15> kForwardedPrefixes = {
    "RONDE_", "HOROVOD_", "PYTHON", "OMP_", "MKL_",  "OPENBLAS_", "NCCL_", "CUDA_",
    "UCX_",   "TORCH_",   "TF_",    "LC_",  "GLOO_", "KMP_",      "XLA_"};

/// The variables of a rank, besides those that each job sets anew.
constexpr std::array kOfARank = {"RONDE_RANK",
                                 "RONDE_SIZE",
                                 "RONDE_JOB_ID",
                                 "RONDE_RENDEZVOUS",
                                 "RONDE_RENDEZVOUS_TREE",
                                 "RONDE_SECRET_FD",
                                 "RONDE_INJECT",
                                 "RONDE_CALL_FD",
                                 "RONDE_ANSWER_FD",
                                 "RONDE_ELASTIC",
                                 "HOROVOD_ELASTIC",
                                 kExitLogVariable,
                                 kJoinVariable,
                                 kPassedVariable,
                                 elastic::kNotesVariable,
                                 elastic::kCopyVariables[0],
                                 elastic::kCopyVariables[1],
                                 elastic::kWorkerVariable,
                                 "HOROVOD_RANK",
                                 "HOROVOD_SIZE",
                                 "HOROVOD_LOCAL_RANK",
                                 "HOROVOD_LOCAL_SIZE",
                                 "HOROVOD_CROSS_RANK",
                                 "HOROVOD_CROSS_SIZE"};

bool is_forwarded(std::string_view name) {
  return std::find(kForwardedNames.begin(), kForwardedNames.end(), name) != kForwardedNames.end() ||
         std::any_of(kForwardedPrefixes.begin(), kForwardedPrefixes.end(),
                     [name](std::string_view prefix) { return name.rfind(prefix, 0) == 0; });
}

/// Hosts that hold a rank with this local rank, up to `end`.
int hosts_with(const std::vector<HostRanks>& hosts, std::size_t end, int local_rank) {
  return static_cast<int>(
      std::count_if(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(end),
                    [local_rank](const HostRanks& host) { return host.ranks > local_rank; }));
}

/// "8x64", "8x3,4x1", or "2x2,1@0" where the first host has one rank more at the end.
std::string ranks_of_hosts(const std::vector<HostRanks>& stretches) {
  std::map<std::string_view, std::size_t> known;
  std::vector<std::string> entries;
  for (auto next = stretches.begin(); next != stretches.end();) {
    const auto first = next;
    const auto [host, is_new] = known.try_emplace(first->name, known.size());
    ++next;
    if (!is_new) {
      entries.push_back(fmt::format("{}@{}", first->ranks, host->second));
      continue;
    }
    while (next != stretches.end() && next->ranks == first->ranks &&
           known.try_emplace(next->name, known.size()).second) {
      ++next;
    }
    entries.push_back(fmt::format("{}x{}", first->ranks, next - first));
  }
  return join_text(entries, ",");
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

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

std::string random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::getrandom(raw.data() + done, bytes - done, 0);
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  std::string text;
  for (const char byte : raw) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

EnvironmentList rank_environment(const std::vector<HostRanks>& hosts, std::size_t host,
                                 int local_rank) {
  const int rank = hosts[host].first_rank + local_rank;
  const int size = hosts.back().first_rank + hosts.back().ranks;
  const int local_size = hosts[host].ranks;
  return {fmt::format("RONDE_RANK={}", rank),
          fmt::format("RONDE_SIZE={}", size),
          fmt::format("RANK={}", rank),
          fmt::format("WORLD_SIZE={}", size),
          fmt::format("LOCAL_RANK={}", local_rank),
          fmt::format("LOCAL_WORLD_SIZE={}", local_size),
          fmt::format("GROUP_RANK={}", host),
          "HOROVOD_HOSTNAME=" + hosts[host].name,
          fmt::format("HOROVOD_RANK={}", rank),
          fmt::format("HOROVOD_SIZE={}", size),
          fmt::format("HOROVOD_LOCAL_RANK={}", local_rank),
          fmt::format("HOROVOD_LOCAL_SIZE={}", local_size),
          fmt::format("HOROVOD_CROSS_RANK={}", hosts_with(hosts, host, local_rank)),
          fmt::format("HOROVOD_CROSS_SIZE={}", hosts_with(hosts, hosts.size(), local_rank))};
}

EnvironmentList job_environment(const std::string& job_id, const Rendezvous& rendezvous,
                                bool several_hosts) {
  // The launcher hides Ronde's frames on its terminal alone.
  EnvironmentList list = {"RONDE_JOB_ID=" + job_id, "RONDE_TRACEBACKS=full",
                          "MASTER_ADDR=" + rendezvous.address,
                          fmt::format("MASTER_PORT={}", rendezvous.master_port)};
  if (several_hosts) {
    list.push_back("RONDE_RENDEZVOUS=" +
                   join_host_port(rendezvous.address, rendezvous.rendezvous_port));
  }
  return list;
}

std::vector<std::string> rendezvous_trees(const std::vector<HostRanks>& stretches,
                                          const std::vector<Rendezvous>& places) {
  const std::string ranks = ranks_of_hosts(stretches);
  const auto place = [&](std::size_t host) {
    return join_host_port(places[host].address, places[host].rendezvous_port);
  };
  std::vector<std::string> trees;
  for (std::size_t host = 0; host < places.size(); ++host) {
    std::string& text = trees.emplace_back(ranks + " " + place(host));
    const int above = leader_above(static_cast<int>(host));
    if (above >= 0) text += " " + place(static_cast<std::size_t>(above));
  }
  return trees;
}

void forget_own_rank() {
  // There is one thread.  NOLINTBEGIN(concurrency-mt-unsafe)
  if (std::getenv("RONDE_RANK") == nullptr && std::getenv(elastic::kWorkerVariable) == nullptr) {
    return;
  }
  for (const char* name : kOfARank) ::unsetenv(name);
  // NOLINTEND(concurrency-mt-unsafe)
}

EnvironmentList forwarded_environment() {
  EnvironmentList list;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (is_forwarded(text.substr(0, text.find('=')))) list.emplace_back(text);
  }
  return list;
}

Result<std::string> environment_entry(const std::string& text) {
  const std::string name = text.substr(0, text.find('='));
  if (!is_variable_name(name)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--env \"{}\": allowed are NAME and NAME=VALUE", text));
  }
  if (name.size() != text.size()) return text;
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  if (value != nullptr) return name + "=" + value;
  return Status(Code::kInvalidArgument,
                fmt::format("--env {}: the variable is not set here; give {}=VALUE", name, name));
}

std::vector<StartMessage> start_messages(const LaunchOptions& options,
                                         const std::vector<Rendezvous>& places) {
  StartMessage common = command_message(options);
  common.secret = random_hex(32);
  common.options = options.agents;
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

/// Names the hosts whose ranks connect to this one, and the one above it; for rank 0's all others.
ProbeMessage RendezvousProbe::question(std::size_t host) const {
  const auto number = static_cast<int>(host);
  const auto count = static_cast<int>(args_.hosts.size());
  ProbeMessage probe;
  const auto add = [&](int other) {
    probe.towards.push_back(args_.hosts[static_cast<std::size_t>(other)]);
  };
  if (number == 0) {
    for (int other = 1; other < count; ++other) add(other);
  } else {
    for (const int below : leaders_below(number, count)) add(below);
    add(leader_above(number));
  }
  if (!probe.towards.empty()) probe.interface = args_.interface;
  return probe;
}

Status RendezvousProbe::take(std::size_t host, ProbedMessage answer) {
  if (host >= asked() || answers_[host]) return {};
  if (!answer.error.empty()) {
    if (host == 0) return {Code::kUnavailable, answer.error};
    args_.say_if_verbose(
        fmt::format("{}: {}: all ranks meet at rank 0", args_.hosts[host], answer.error));
  }
  answers_[host] = std::move(answer);
  ++answered_;
  return {};
}

std::vector<Rendezvous> RendezvousProbe::places() const {
  std::vector<Rendezvous> places;
  for (const auto& answer : answers_) {
    if (!answer->error.empty()) return {places.front()};
    places.push_back({answer->address, answer->rendezvous_port, answer->master_port});
  }
  return places;
}

}  // namespace ronde
