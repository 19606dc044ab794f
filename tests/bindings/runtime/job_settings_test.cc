#include "bindings/runtime/job_settings.h"

#include <doctest/doctest.h>

#include <string>

#include "core/engine/engine.h"
#include "core/ports/topology.h"

namespace ronde {
namespace {

using std::chrono::microseconds;

Topology ranks_on(const std::vector<int>& hosts) {
  Topology topology;
  for (const int host : hosts) topology.peers.push_back({.host_index = host, .host_name = "h"});
  return topology;
}

std::string refusal(std::string_view name, const std::string& value) {
  Config config;
  REQUIRE(set_setting(config, name, value).ok());
  return check_named_choices(config).message();
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

TEST_CASE("named choices: the defaults, and names that are known, are allowed") {
  CHECK(check_named_choices(Config()).ok());
  CHECK(refusal("RONDE_BACKEND", "tcp").empty());
  CHECK(refusal("RONDE_ALGORITHM", "ring").empty());
  CHECK(refusal("RONDE_COMPRESSION", "none").empty());
  CHECK(refusal("RONDE_COMPRESSION", "topk:ratio=0.01").empty());
}

TEST_CASE("named choices: the variable of a name that is not known is named") {
  CHECK(refusal("RONDE_BACKEND", "tpc").starts_with("RONDE_BACKEND=\"tpc\" is not valid; allowed"));
  CHECK(refusal("RONDE_ALGORITHM", "foo")
            .starts_with("RONDE_ALGORITHM=\"foo\": algorithm 'foo' is not known; allowed: "));
  CHECK(refusal("RONDE_COMPRESSION", "int9")
            .starts_with("RONDE_COMPRESSION=\"int9\": compression 'int9': not known; allowed: "));
}

}  // namespace ronde
