// Tasks of a Slurm step on pretended nodes meet from Slurm's variables alone.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>

#include "backends/net/connection/socket.h"
#include "backends/net/factory.h"
#include "tests/backends/net/processes.h"

namespace ronde::net {
namespace {

/// A folder that all nodes share, removed at the end.
struct SharedFolder {
  SharedFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~SharedFolder() { std::filesystem::remove_all(path); }
  std::string path = "/tmp/ronde-test-XXXXXX";
};

/// The settings of a task, of two on each of two nodes.
Config task_config(int rank, const std::string& folder) {
  const std::map<std::string, std::string> variables = {
      {"SLURM_JOB_ID", fmt::to_string(::getppid())},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_PROCID", fmt::to_string(rank)},
      {"SLURM_LOCALID", fmt::to_string(rank % 2)},
      {"SLURM_NTASKS", "4"},
      {"SLURM_STEP_NUM_TASKS", "4"},
      {"SLURM_STEP_NODELIST", "127.0.0.[1-2]"},
      {"HOME", folder}};
  return config_from([&](const std::string& name) -> std::optional<std::string> {
           const auto found = variables.find(name);
           if (found == variables.end()) return std::nullopt;
           return found->second;
         })
      .value();
}

Result<JobLink> connect_task(const Config& config) {
  return connect_job(config, {.version = "1",
                              .host_name = fmt::format("n{}", config.rank / 2 + 1),
                              .host_identity = fmt::format("node {}", config.rank / 2)});
}

TEST_CASE("slurm: tasks meet from Slurm's variables, and leave no secret behind") {
  const SharedFolder folder;
  const auto codes = run_ranks(4, [&](int rank) {
    const auto link = connect_task(task_config(rank, folder.path));
    RONDE_CHILD_REQUIRE(link.ok());
    RONDE_CHILD_REQUIRE(link->channel->topology().host_count() == 2);
    RONDE_CHILD_REQUIRE(link->channel->topology().rank == rank);
    link->channel->close();
    return 0;
  });
  CHECK(codes == all_good(4));
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("slurm: rank 0 takes the next port where another program has the first") {
  const SharedFolder folder;
  const auto codes = run_ranks(4, [&](int rank) {
    const Config config = task_config(rank, folder.path);
    const auto taken = rank == 0 ? listen_on(resolve(config.rendezvous)->front())
                                 : Result<FileDescriptor>(FileDescriptor());
    RONDE_CHILD_REQUIRE(taken.ok());
    const auto link = connect_task(config);
    RONDE_CHILD_REQUIRE(link.ok());
    link->channel->close();
    return 0;
  });
  CHECK(codes == all_good(4));
}

TEST_CASE("slurm: a node without the secret's folder names it, and how to go on") {
  const SharedFolder folder;
  const SharedFolder elsewhere;
  const auto codes = run_ranks(4, [&](int rank) {
    Config config = task_config(rank, rank < 2 ? folder.path : elsewhere.path);
    // The other node goes on when rank 0 has given up, and still tells the cause.
    config.start_timeout = std::chrono::milliseconds(rank < 2 ? 700 : 1500);
    const auto link = connect_task(config);
    if (link.ok()) return 0;  // munge is here, and needs no folder
    RONDE_CHILD_REQUIRE(link.status().code() == Code::kTimeout);
    const std::string& message = link.status().message();
    const std::string& cause = rank < 2 ? "ranks 2, 3" : elsewhere.path;
    RONDE_CHILD_REQUIRE(message.find(cause) != std::string::npos);
    return 0;
  });
  CHECK(codes == all_good(4));
}

}  // namespace
}  // namespace ronde::net
