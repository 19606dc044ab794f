// Jobs of thousands of ranks in the simulator: same order everywhere, few frames for each.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tests/core/protocol/simulator.h"

namespace ronde {
namespace {

SimulatorOptions world(std::uint64_t seed, int ranks, int per_host) {
  SimulatorOptions options;
  options.seed = seed;
  for (int rank = 0; rank < ranks; ++rank) {
    options.members.push_back(rank);
    options.hosts.push_back(rank / per_host);
  }
  options.check_every = 97;
  return options;
}

/// Every rank submits the same few tensors, one after the other.
void plan(Simulator& simulator, std::size_t tensors) {
  for (std::size_t member = 0; member < simulator.size(); ++member) {
    for (std::size_t which = 0; which < tensors; ++which) {
      Action action;
      action.request.name = fmt::format("t{}", which % 2);
      action.request.tensors = {{DType::kFloat32, {8}}};
      simulator.plan(member, action);
    }
  }
}

std::size_t most_frames(const Simulator& simulator) {
  std::size_t most = 0;
  for (std::size_t member = 0; member < simulator.size(); ++member) {
    most = std::max(most, simulator.frames(member));
  }
  return most;
}

}  // namespace

TEST_CASE("Simulation: 4,096 ranks on 512 hosts agree, with O(log N) frames for each") {
  constexpr std::size_t kTensors = 4;
  Simulator simulator(world(11, 4096, 8));
  plan(simulator, kTensors);
  simulator.run();
  for (const std::string& violation : simulator.violations()) FAIL_CHECK(violation);
  CHECK(simulator.finished());
  CHECK(simulator.log(0).size() == kTensors);
  // Each tensor costs a rank a frame up and one down for each neighbour in the tree, and at most as
  // many again where it came in two waves.
  CHECK(most_frames(simulator) <= kTensors * 4 * std::bit_width(simulator.size()));
}

TEST_CASE("Simulation: a death among 1,024 ranks, at any moment, lets nothing wrong be agreed") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Simulator simulator(world(seed, 1024, 8));
    plan(simulator, 4);
    for (std::uint64_t sweep = 0; sweep < seed * 3 && simulator.sweep(); ++sweep) {
    }
    simulator.kill(static_cast<std::size_t>(seed * 167 % 1024));
    simulator.run();
    for (const std::string& violation : simulator.violations()) FAIL_CHECK(violation);
  }
}

}  // namespace ronde
