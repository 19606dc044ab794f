// The trees that a setting describes.
#include "backends/net/meet/rendezvous_place.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/protocol/tree.h"

namespace ronde::net {
namespace {

constexpr const char* kOwn = "10.0.0.2:4000";
constexpr const char* kAbove = "10.0.0.1:4000";

Config config_of(int rank, int size, const std::string& hosts, bool first_host = false) {
  Config config;
  config.rank = rank;
  config.size = size;
  config.rendezvous_tree = hosts + " " + kOwn + (first_host ? "" : std::string(" ") + kAbove);
  return config;
}

RendezvousPlace place_of(const Config& config) {
  return place_in_rendezvous(config).value().value();
}

TEST_CASE("RendezvousPlace: ranks of a host connect to its lowest") {
  const RendezvousPlace place = place_of(config_of(5, 8, "4x2"));
  CHECK(place.parent == 4);
  CHECK(place.parent_at.text() == kOwn);
  CHECK(place.children.empty());
  CHECK(place.levels_below == 0);
}

TEST_CASE("RendezvousPlace: a leader connects to the leader above it") {
  const RendezvousPlace place = place_of(config_of(4, 7, "4,3"));
  CHECK(place.parent == 0);
  CHECK(place.parent_at.text() == kAbove);
  REQUIRE(place.children.size() == 2);
  CHECK(place.children[1].rank == 6);
  CHECK(place.levels_below == 1);
}

TEST_CASE("RendezvousPlace: a leader knows who meets through the leaders below it") {
  const RendezvousPlace root = place_of(config_of(0, 24, "2x12", true));
  CHECK(root.parent == -1);
  CHECK(root.levels_below == 3);  // leaders, leaders below those, and their hosts' ranks
  REQUIRE(root.children.size() == 9);
  CHECK(root.children[0].rank == 1);
  CHECK(root.children[0].behind.empty());
  CHECK(root.children[1].rank == 2);
  CHECK(root.children[1].behind == std::vector<int>{3, 18, 19, 20, 21, 22, 23});
  CHECK(root.children[2].behind == std::vector<int>{5});
}

TEST_CASE("RendezvousPlace: each rank is below the one to which it connects") {
  constexpr int kSize = 200;
  int edges = 0;
  for (int rank = 0; rank < kSize; ++rank) {
    const RendezvousPlace place = place_of(config_of(rank, kSize, "1x100,2,1x98", rank == 0));
    CHECK(place.children.size() <= 9);
    for (const auto& child : place.children) {
      CHECK(place_of(config_of(child.rank, kSize, "1x100,2,1x98")).parent == rank);
      ++edges;
    }
  }
  CHECK(edges == kSize - 1);
}

TEST_CASE("RendezvousPlace: further ranks of a host meet at its lowest, too") {
  // Host 0 has ranks 0, 1 and 6, host 1 has 2 and 5, host 2 has 3 and 4.
  const std::string hosts = "2,1,2,1@1,1@0";
  const RendezvousPlace root = place_of(config_of(0, 7, hosts, true));
  std::vector<int> children;
  for (const auto& child : root.children) children.push_back(child.rank);
  CHECK(children == std::vector<int>{1, 2, 3, 6});
  CHECK(root.children[1].behind == std::vector<int>{5});
  CHECK(root.children[2].behind == std::vector<int>{4});
  CHECK(root.levels_below == 2);
  CHECK(place_of(config_of(6, 7, hosts, true)).parent == 0);
  const RendezvousPlace last = place_of(config_of(5, 7, hosts));
  CHECK(last.parent == 2);
  CHECK(last.parent_at.text() == kOwn);
}

TEST_CASE("RendezvousPlace: without a tree, or with that of another job, all meet at rank 0") {
  CHECK_FALSE(place_in_rendezvous(Config()).value().has_value());
  CHECK_FALSE(place_in_rendezvous(config_of(1, 3, "4x2")).value().has_value());
}

TEST_CASE("RendezvousPlace: a value that makes no sense is an error that shows it") {
  for (const std::string text :
       {"4x2", "x2 10.0.0.1:1", "0x2 10.0.0.1:1", "4x0 10.0.0.1:1", "4x2x 10.0.0.1:1",
        "4x99999999999 10.0.0.1:1", "8 nowhere", "4,4@1 10.0.0.1:1", "4@0 10.0.0.1:1",
        "4,4@-1 10.0.0.1:1", "4,4@ 10.0.0.1:1", "4,4@0x1 10.0.0.1:1", "4+4 10.0.0.1:1",
        "8 10.0.0.1:1 10.0.0.2:1", "8 10.0.0.1:1 10.0.0.2:1 10.0.0.3:1"}) {
    CAPTURE(text);
    Config config;
    config.size = 8;
    config.rendezvous_tree = text;
    const auto place = place_in_rendezvous(config);
    CHECK(place.status().code() == Code::kInvalidArgument);
    CHECK(place.status().message().find("RONDE_RENDEZVOUS_TREE=\"" + text + "\"") == 0);
  }
}

}  // namespace
}  // namespace ronde::net
