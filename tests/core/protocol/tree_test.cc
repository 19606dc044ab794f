#include "core/protocol/tree.h"

#include <doctest/doctest.h>

#include <numeric>

namespace ronde {

TEST_CASE("Tree: members of a host hang under its lowest") {
  const std::vector<int> members = {2, 3, 5, 7, 8, 9, 11};
  const std::vector<int> hosts = {1, 1, 0, 0, 2, 3, 1};
  CHECK(place_in_tree(2, members, hosts).parent == -1);
  CHECK(place_in_tree(2, members, hosts).children == std::vector<int>{3, 5, 8, 9, 11});
  CHECK(place_in_tree(11, members, hosts).parent == 2);
  CHECK(place_in_tree(5, members, hosts).parent == 2);
  CHECK(place_in_tree(5, members, hosts).children == std::vector<int>{7});
  CHECK(place_in_tree(9, members, hosts).children.empty());
}

TEST_CASE("Tree: a leader has eight leaders below it at most") {
  std::vector<int> members(20);
  std::iota(members.begin(), members.end(), 0);
  const std::vector<int>& hosts = members;  // a host for each
  CHECK(place_in_tree(0, members, hosts).children == std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(place_in_tree(2, members, hosts).children == std::vector<int>{17, 18, 19});
  CHECK(place_in_tree(17, members, hosts).parent == 2);
}

TEST_CASE("Tree: every rank is the child of its parent and all reach one root") {
  for (int size = 1; size <= 40; ++size) {
    for (int host_count = 1; host_count <= 27; ++host_count) {
      std::vector<int> members;
      std::vector<int> hosts;
      for (int i = 0; i < size; ++i) {
        members.push_back(3 * i);
        hosts.push_back((i * 7) % host_count);
      }
      std::size_t edges = 0;
      for (const int rank : members) {
        const TreePlace place = place_in_tree(rank, members, hosts);
        CHECK((place.parent < 0) == (rank == 0));
        edges += place.children.size();
        for (const int child : place.children) {
          CHECK(place_in_tree(child, members, hosts).parent == rank);
        }
      }
      CHECK(edges == members.size() - 1);
    }
  }
}

TEST_CASE("Tree: leaders are counted level by level") {
  CHECK(leader_above(0) == -1);
  CHECK(leaders_below(1, 12) == std::vector<int>{9, 10, 11});
  CHECK(leaders_below(2, 12).empty());
  for (int count = 1; count < 100; ++count) {
    for (int index = 0; index < count; ++index) {
      for (const int below : leaders_below(index, count)) CHECK(leader_above(below) == index);
    }
  }
}

}  // namespace ronde
