#include "bindings/cli/launch/start_messages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ronde {
namespace {

bool holds(const EnvironmentList& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

LaunchOptions options_of(const std::vector<HostRanks>& hosts) {
  LaunchOptions options;
  options.hosts = hosts;
  options.command = {"train"};
  options.environment = {"COLOUR=red"};
  return options;
}

const Rendezvous kRendezvous{.address = "10.0.0.1", .rendezvous_port = 4000, .master_port = 5000};

TEST_CASE("each host is told of its own ranks, all of one job") {
  const auto messages = start_messages(options_of({{.name = "", .first_rank = 0, .ranks = 1},
                                                   {.name = "b", .first_rank = 1, .ranks = 2}}),
                                       kRendezvous);
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].ranks.size() == 1);
  REQUIRE(messages[1].ranks.size() == 2);
  CHECK(messages[1].ranks[1].rank == 2);
  CHECK(holds(messages[1].ranks[1].environment, "RANK=2"));
  CHECK(holds(messages[1].ranks[1].environment, "COLOUR=red"));
  CHECK(messages[0].command == std::vector<std::string>{"train"});
  CHECK_FALSE(messages[0].secret.empty());
  CHECK(messages[0].secret == messages[1].secret);
}

TEST_CASE("each job has a secret of its own") {
  const auto options = options_of({{.name = "", .first_rank = 0, .ranks = 1}});
  CHECK(start_messages(options, kRendezvous)[0].secret !=
        start_messages(options, kRendezvous)[0].secret);
}

TEST_CASE("mpirun is told the rendezvous, and makes the ranks itself") {
  const auto options = options_of({{.name = "", .first_rank = 0, .ranks = 4}});
  const StartMessage message = mpirun_start_message(options, kRendezvous);
  REQUIRE(message.ranks.size() == 1);
  CHECK(holds(message.ranks[0].environment, "MASTER_ADDR=10.0.0.1"));
  CHECK(holds(message.ranks[0].environment, "MASTER_PORT=5000"));
  CHECK(holds(message.ranks[0].environment, "COLOUR=red"));
}

}  // namespace
}  // namespace ronde
