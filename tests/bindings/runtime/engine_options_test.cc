#include "bindings/runtime/engine_options.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

using std::chrono::microseconds;

Topology ranks_on(const std::vector<int>& hosts) {
  Topology topology;
  for (const int host : hosts) topology.peers.push_back({.host_index = host, .host_name = "h"});
  return topology;
}

}  // namespace

TEST_CASE("engine_options: a wait spins on one host that has a core for each of its ranks") {
  Config config;
  config.spin = microseconds(70);
  CHECK(engine_options(config, ranks_on({0, 0}), 2).spin == microseconds(70));
  CHECK(engine_options(config, ranks_on({0, 0}), 1).spin == microseconds(0));
  CHECK(engine_options(config, ranks_on({0, 1}), 2).spin == microseconds(0));
}

TEST_CASE("engine_options: small operations carry no data where an algorithm is asked for") {
  Config config;
  config.inline_payload_bytes = 96;
  CHECK(engine_options(config, ranks_on({0, 1}), 2).payload_bytes == 96);
  config.algorithm = "ring";
  CHECK(engine_options(config, ranks_on({0, 1}), 2).payload_bytes == 0);
}

}  // namespace ronde
