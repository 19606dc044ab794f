#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "bindings/cli/launch/agent_link.h"

namespace ronde {

TEST_CASE("agent tree: the launcher starts the first hosts, and they start the others evenly") {
  CHECK(agent_parent(0, 32) == -1);
  CHECK(agent_parent(31, 32) == -1);
  CHECK(agent_parent(32, 32) == 0);
  CHECK(agent_parent(63, 32) == 31);
  CHECK(agent_parent(64, 32) == 0);
  CHECK(agent_parent(32 + 1024, 32) == 32);
  CHECK(agent_parent(5, 1) == 4);
}

TEST_CASE("agent tree: nobody starts more than the fan-out") {
  for (const int fan_out : {1, 2, 3, 32}) {
    std::map<int, int> started;
    for (int host = 0; host < 3000; ++host) {
      const int parent = agent_parent(host, fan_out);
      CHECK(parent < host);
      ++started[parent];
    }
    CAPTURE(fan_out);
    for (const auto& [parent, count] : started) CHECK(count <= fan_out);
  }
}

}  // namespace ronde
