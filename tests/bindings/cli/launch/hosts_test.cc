#include "bindings/cli/launch/hosts.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("hosts: names with and without slots, IPv6 in brackets") {
  const auto hosts = parse_hosts("a:2,user@b.example,[fe80::1%eth0]:3,[::1]");
  REQUIRE(hosts.ok());
  REQUIRE(hosts->size() == 4);
  CHECK((*hosts)[0].slots == 2);
  CHECK((*hosts)[1].name == "user@b.example");
  CHECK((*hosts)[1].slots == 1);
  CHECK((*hosts)[2].name == "fe80::1%eth0");
  CHECK((*hosts)[2].slots == 3);
  CHECK((*hosts)[3].name == "::1");
}

TEST_CASE("hosts: what ssh or a shell could misread is refused by name") {
  for (const char* bad : {"", "a,,b", "-oProxyCommand=x", "a b", "a;b", "a:0", "a:-1", "a:x",
                          "a:", "a:1x", "$(x)", "a:70000", "[::1", "a:2,a:2"}) {
    CAPTURE(bad);
    const auto hosts = parse_hosts(bad);
    CHECK(hosts.status().code() == Code::kInvalidArgument);
    CHECK(hosts.status().message().find("host \"") == 0);
  }
}

TEST_CASE("hosts: a hostfile takes both spellings, comments and blank lines") {
  const auto hosts = parse_hostfile("# cluster\nnode1 slots=4\n\n  node2:3  # big\nnode3\r\n");
  REQUIRE(hosts.ok());
  REQUIRE(hosts->size() == 3);
  CHECK((*hosts)[0].slots == 4);
  CHECK((*hosts)[1].slots == 3);
  CHECK((*hosts)[2].name == "node3");
}

TEST_CASE("hosts: an error in a hostfile names the line") {
  CHECK(parse_hostfile("a\nb slot=2\n").status().message().find("line 2") == 0);
  CHECK(parse_hostfile("a\na\n").status().message().find("twice") != std::string::npos);
  CHECK(parse_hostfile("a slots=2 extra").status().message().find("line 1") == 0);
  CHECK_FALSE(parse_hostfile("# nothing\n").ok());
}

TEST_CASE("hosts: a discovery script's lines are names with or without slots, and nothing else") {
  const auto hosts = parse_discovered_hosts("a:2\n\n  b \n[::1]:3\n", 4);
  REQUIRE(hosts.ok());
  CHECK(*hosts == std::vector<HostSlots>{{"a", 2}, {"b", 4}, {"::1", 3}});
  CHECK(parse_discovered_hosts("")->empty());
  for (const char* bad : {"a\nb slots=2", "a # comment", "a b", "a\na", "a:0", "a,b"}) {
    CAPTURE(bad);
    CHECK(parse_discovered_hosts(bad).status().message().find("line ") == 0);
  }
}

TEST_CASE("hosts: those without a number have the slots that are given") {
  CHECK(*parse_hosts("a,b:2", 3) == std::vector<HostSlots>{{"a", 3}, {"b", 2}});
  CHECK(*parse_hostfile("a\nb slots=2", 3) == std::vector<HostSlots>{{"a", 3}, {"b", 2}});
}

TEST_CASE("hosts: ranks fill one host after the other") {
  const auto placed = place_ranks({{"a", 2}, {"b", 4}, {"c", 1}}, 5);
  REQUIRE(placed.ok());
  REQUIRE(placed->size() == 2);
  CHECK((*placed)[1].first_rank == 2);
  CHECK((*placed)[1].ranks == 3);
  CHECK(place_ranks({{"a", 2}, {"b", 4}}, 0)->back().ranks == 4);
}

TEST_CASE("hosts: one with several stretches of ranks is named once, at its lowest") {
  CHECK(host_names({{"b", 0, 2}, {"a", 2, 1}, {"b", 3, 1}}) == std::vector<std::string>{"b", "a"});
}

TEST_CASE("hosts: too few slots is an error with both numbers") {
  const std::string message = place_ranks({{"a", 2}}, 3).status().message();
  CHECK(message.find("3 ranks") != std::string::npos);
  CHECK(message.find("2 slots") != std::string::npos);
}

}  // namespace ronde
