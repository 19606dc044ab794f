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
                                       {kRendezvous});
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

/// The entry of RONDE_RENDEZVOUS_TREE; empty where there is none.
std::string tree_of(const StartMessage& message) {
  for (const std::string& entry : message.environment) {
    if (entry.starts_with("RONDE_RENDEZVOUS_TREE=")) return entry;
  }
  return "";
}

const std::vector<HostRanks> kTwoHosts = {{.name = "a", .first_rank = 0, .ranks = 2},
                                          {.name = "b", .first_rank = 2, .ranks = 1}};
const std::vector<Rendezvous> kTwoPlaces = {kRendezvous, {"10.0.0.2", 4001, 5001}};

TEST_CASE("the ranks of a host are told where they meet, and where their leader goes on to") {
  const auto messages = start_messages(options_of(kTwoHosts), kTwoPlaces);
  CHECK(tree_of(messages[0]) == "RONDE_RENDEZVOUS_TREE=2x1,1x1 10.0.0.1:4000");
  CHECK(tree_of(messages[1]) == "RONDE_RENDEZVOUS_TREE=2x1,1x1 10.0.0.2:4001 10.0.0.1:4000");
}

TEST_CASE("all ranks meet at rank 0 where a host has no address, or the user says where") {
  CHECK(tree_of(start_messages(options_of(kTwoHosts), {kRendezvous})[1]).empty());
  LaunchOptions options = options_of(kTwoHosts);
  options.environment = {"RONDE_RENDEZVOUS=10.1.0.1:4000"};
  CHECK(tree_of(start_messages(options, kTwoPlaces)[1]).empty());
}

TEST_CASE("each job has a secret of its own") {
  const auto options = options_of({{.name = "", .first_rank = 0, .ranks = 1}});
  CHECK(start_messages(options, {kRendezvous})[0].secret !=
        start_messages(options, {kRendezvous})[0].secret);
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
