#include "bindings/cli/launch/job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "bindings/cli/launch/launcher.h"

namespace ronde {
namespace {

bool contains(const EnvironmentList& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

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

TEST_CASE("job: a rank finds itself under Ronde's, torchrun's and Horovod's names") {
  const std::vector<HostRanks> hosts = {{"a", 0, 2}, {"b", 2, 1}, {"c", 3, 3}};
  const EnvironmentList list = rank_environment(hosts, 2, 1);
  for (const char* entry : {"RONDE_RANK=4", "RONDE_SIZE=6", "RANK=4", "WORLD_SIZE=6",
                            "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=3", "HOROVOD_LOCAL_SIZE=3",
                            "HOROVOD_CROSS_RANK=1", "HOROVOD_CROSS_SIZE=2"}) {
    CAPTURE(entry);
    CHECK(contains(list, entry));
  }
}

TEST_CASE("job: only several hosts get a rendezvous") {
  CHECK(contains(job_environment("id", {"::1", 7, 8}, true), "RONDE_RENDEZVOUS=[::1]:7"));
  for (const std::string& entry : job_environment("id", {"127.0.0.1", 7, 8}, false)) {
    CHECK(entry.rfind("RONDE_RENDEZVOUS", 0) != 0);
  }
}

TEST_CASE("job: hosts with equally many ranks are told as one, and each whom it is below") {
  const std::vector<HostRanks> hosts = {{"a", 0, 2}, {"b", 2, 2}, {"c", 4, 3}, {"d", 7, 2}};
  const std::vector<Rendezvous> places = {
      {"10.0.0.1", 1, 9}, {"::2", 2, 9}, {"::3", 3, 9}, {"::4", 4, 9}};
  const std::vector<std::string> trees = rendezvous_trees(hosts, places);
  REQUIRE(trees.size() == 4);
  CHECK(trees[0] == "2x2,3x1,2x1 10.0.0.1:1");
  CHECK(trees[3] == "2x2,3x1,2x1 [::4]:4 10.0.0.1:1");
}

TEST_CASE("job: ranks of a host that are apart from its others are told as further ones") {
  const std::vector<HostRanks> stretches = {{"a", 0, 2}, {"b", 2, 2}, {"c", 4, 1},
                                            {"b", 5, 1}, {"d", 6, 1}, {"a", 7, 1}};
  const std::vector<Rendezvous> places = {
      {"10.0.0.1", 1, 9}, {"10.0.0.2", 2, 9}, {"10.0.0.3", 3, 9}, {"10.0.0.4", 4, 9}};
  const std::vector<std::string> trees = rendezvous_trees(stretches, places);
  REQUIRE(trees.size() == 4);
  CHECK(trees[3] == "2x2,1x1,1@1,1x1,1@0 10.0.0.4:4 10.0.0.1:1");
}

// The tests have one thread.  NOLINTBEGIN(concurrency-mt-unsafe)
TEST_CASE("job: a rank that starts a job forgets its own place, another process nothing") {
  for (const bool is_rank : {false, true}) {
    CAPTURE(is_rank);
    ::setenv("RONDE_RENDEZVOUS", "n1:1", 1);
    ::setenv("RONDE_ELASTIC_FD", "9", 1);
    if (is_rank) ::setenv("RONDE_RANK", "1", 1);
    forget_own_rank();
    for (const char* name : {"RONDE_RENDEZVOUS", "RONDE_ELASTIC_FD"}) {
      CHECK((std::getenv(name) == nullptr) == is_rank);
      ::unsetenv(name);
    }
    CHECK(std::getenv("RONDE_RANK") == nullptr);
  }
}

TEST_CASE("job: secrets are long and never the same") {
  CHECK(random_hex(32).size() == 64);
  CHECK(random_hex(32) != random_hex(32));
  CHECK(random_hex(32).find_first_not_of("0123456789abcdef") == std::string::npos);
}

TEST_CASE("job: --env takes a value or this process's own") {
  ::setenv("RONDE_TEST_VARIABLE", "x=y", 1);
  CHECK(*environment_entry("RONDE_TEST_VARIABLE") == "RONDE_TEST_VARIABLE=x=y");
  ::unsetenv("RONDE_TEST_VARIABLE");
  CHECK(*environment_entry("A=b c") == "A=b c");
  CHECK(environment_entry("A=").ok());
  CHECK_FALSE(environment_entry("RONDE_TEST_VARIABLE").ok());
  CHECK_FALSE(environment_entry("=x").ok());
  CHECK_FALSE(environment_entry("A B=x").ok());
}

TEST_CASE("job: other hosts get settings and paths, but not everything") {
  ::setenv("RONDE_TEST_VARIABLE", "1", 1);
  ::setenv("SOME_PASSWORD", "hidden", 1);
  const EnvironmentList list = forwarded_environment();
  CHECK(contains(list, "RONDE_TEST_VARIABLE=1"));
  CHECK_FALSE(contains(list, "SOME_PASSWORD=hidden"));
  ::unsetenv("RONDE_TEST_VARIABLE");
  ::unsetenv("SOME_PASSWORD");
}

// NOLINTEND(concurrency-mt-unsafe)

}  // namespace ronde
