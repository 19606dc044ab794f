#include "timeline/flows.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace ronde {
namespace {

report::TraceEvent run_of(std::int64_t rank, std::int64_t lane, std::uint64_t bundle) {
  return {.phase = 'B', .pid = rank, .tid = lane, .name = "ALLREDUCE", .bundle = bundle};
}

nlohmann::json lines_of(const std::string& text) {
  return nlohmann::json::parse("[" + (text.empty() ? text : text.substr(1)) + "]");
}

}  // namespace

TEST_CASE("flows: an arrow goes from the rank that starts earlier to the other") {
  Flows flows;
  std::string out;
  flows.take(run_of(0, 3, 7), 5000, out);
  flows.take(run_of(0, 4, 7), 5000, out);  // the next tensor of the bundle
  flows.take(run_of(0, 3, 8), 9000, out);
  CHECK(out.empty());
  flows.take(run_of(1, 5, 7), 4000, out);
  flows.take(run_of(1, 6, 7), 4000, out);
  flows.take(run_of(1, 5, 8), 9500, out);
  const nlohmann::json arrows = lines_of(out);
  REQUIRE(arrows.size() == 4);
  CHECK(arrows[0]["ph"] == "s");
  CHECK(arrows[0]["pid"] == 1);
  CHECK(arrows[0]["tid"] == 5);
  CHECK(arrows[0]["ts"] == 4.0);
  CHECK(arrows[1]["ph"] == "f");
  CHECK(arrows[1]["pid"] == 0);
  CHECK(arrows[1]["id"] == arrows[0]["id"]);
  CHECK(arrows[2]["pid"] == 0);
  CHECK(arrows[3]["pid"] == 1);
  CHECK(arrows[3]["ts"] == 9.5);
  CHECK(arrows[3]["id"] != arrows[0]["id"]);
}

TEST_CASE("flows: what the first rank has not, and what is no bundle, get no arrow") {
  Flows flows;
  std::string out;
  flows.take(run_of(0, 3, 7), 5000, out);
  flows.take(run_of(1, 3, 9), 5000, out);
  flows.take(run_of(1, 3, 0), 5000, out);
  flows.take({.phase = 'E', .pid = 1, .bundle = 7}, 6000, out);
  CHECK(out.empty());
}

}  // namespace ronde
