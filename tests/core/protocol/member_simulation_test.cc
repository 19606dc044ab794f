// Whole jobs in the simulator, seeded. What each run must satisfy is checked there after every
// event; here are the worlds, and what must have come out in the end.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "tests/core/protocol/simulator.h"
#include "tests/support/volume.h"

namespace ronde {
namespace {

using Random = std::mt19937_64;

std::size_t pick(Random& random, std::size_t below) {
  return static_cast<std::size_t>(random() % below);
}

SimulatorOptions world(Random& random, std::size_t max_members) {
  SimulatorOptions options;
  options.seed = random();
  const std::size_t members = 1 + pick(random, max_members);
  const std::size_t hosts = 1 + pick(random, 8);
  int rank = 0;
  for (std::size_t i = 0; i < members; ++i) {
    rank += 1 + static_cast<int>(pick(random, 3));  // a process set need not have every rank
    options.members.push_back(rank);
    options.hosts.push_back(static_cast<int>(pick(random, hosts)));
  }
  options.cache_capacity = pick(random, 12);
  return options;
}

Request request_of(const Simulator& simulator, std::size_t which, std::size_t version) {
  Request request;
  request.name = fmt::format("t{}", which);
  request.kind = which % 4 == 3 ? Collective::kBroadcast : Collective::kAllreduce;
  request.root = simulator.rank_of(which % simulator.size());
  request.tensors = {{DType::kFloat32, {2, static_cast<std::int64_t>(3 + version)}}};
  if (which % 5 == 4) request.tensors.push_back({DType::kInt64, {7}});
  request.priority = static_cast<std::int32_t>(which % 3);
  return request;
}

/// How many worlds each test draws.
std::size_t worlds() { return test::repetitions(20, 200); }

void check(Simulator& simulator) {
  for (const std::string& violation : simulator.violations()) FAIL_CHECK(violation);
  CHECK(simulator.finished());
}

std::size_t count(const std::vector<Seen>& log, Code code) {
  return static_cast<std::size_t>(
      std::count_if(log.begin(), log.end(), [&](const Seen& seen) { return seen.code == code; }));
}

struct Training {
  std::size_t steps = 6;
  std::size_t tensors = 10;
  bool changing = false;    ///< Shapes change between steps.
  bool mismatches = false;  ///< Each step one rank submits one tensor with another shape.
  bool doubles = false;     ///< Each step one rank submits one tensor twice.
};

/// Every rank submits all tensors in every step, in an order of its own, some unnamed between.
void plan(Simulator& simulator, const Training& training, Random& random) {
  for (std::size_t step = 0; step < training.steps; ++step) {
    const std::size_t odd_member = pick(random, simulator.size());
    const std::size_t victim = pick(random, training.tensors);
    const std::size_t doubled = pick(random, training.tensors);
    const std::size_t version = training.changing ? step / 2 : 0;
    for (std::size_t member = 0; member < simulator.size(); ++member) {
      std::vector<Action> actions;
      for (std::size_t which = 0; which < training.tensors; ++which) {
        Action action{request_of(simulator, which, version)};
        action.request.call_site = fmt::format("rank{}.py:{}", member, step);
        const bool odd = training.mismatches && member == odd_member && which == victim;
        if (odd) action.request.tensors[0].shape[0] = 99;
        action.twice = training.doubles && member == odd_member && which == doubled;
        actions.push_back(std::move(action));
      }
      std::shuffle(actions.begin(), actions.end(), random);
      for (std::size_t i = 0; i < 3; ++i) {
        Action action{request_of(simulator, 100 + i, version)};
        action.request.name.clear();
        const auto where = actions.begin() + static_cast<std::ptrdiff_t>(i * 2);
        actions.insert(where, std::move(action));
      }
      for (Action& action : actions) simulator.plan(member, std::move(action));
    }
  }
}

}  // namespace

TEST_CASE("Simulation: any submission order on any tree ends in the same order everywhere") {
  Random random(1);
  for (std::size_t world_number = 0; world_number < worlds(); ++world_number) {
    Simulator simulator(world(random, 12));
    plan(simulator, {}, random);
    simulator.run();
    check(simulator);
    CHECK(simulator.log(0).size() == 6 * 13);
    CHECK(count(simulator.log(0), Code::kOk) == 6 * 13);
  }
}

TEST_CASE("Simulation: what is paced is overtaken, in the same order on all ranks") {
  Random random(11);
  std::size_t overtaken = 0;
  for (std::size_t world_number = 0; world_number < worlds(); ++world_number) {
    SimulatorOptions options = world(random, 12);
    options.pace = true;
    Simulator simulator(options);
    plan(simulator, {.changing = true, .mismatches = true}, random);
    simulator.run();
    check(simulator);
    std::vector<std::string> agreed;
    for (const Seen& seen : simulator.log(0)) {
      if (seen.code == Code::kOk) agreed.push_back(seen.name);
    }
    for (std::size_t member = 1; member < simulator.size(); ++member) {
      CHECK(simulator.ran(member) == simulator.ran(0));
    }
    CHECK(std::is_permutation(agreed.begin(), agreed.end(), simulator.ran(0).begin(),
                              simulator.ran(0).end()));
    if (agreed != simulator.ran(0)) ++overtaken;
  }
  CHECK(overtaken > worlds() / 2);
}

TEST_CASE("Simulation: 64 ranks on 8 hosts agree") {
  Random random(2);
  for (int world_number = 0; world_number < 3; ++world_number) {
    SimulatorOptions options;
    options.seed = random();
    for (int rank = 0; rank < 64; ++rank) {
      options.members.push_back(rank);
      options.hosts.push_back(world_number == 0 ? rank / 8 : static_cast<int>(pick(random, 8)));
    }
    Simulator simulator(options);
    plan(simulator, {.steps = 3, .changing = true, .mismatches = true}, random);
    simulator.run();
    check(simulator);
    CHECK(count(simulator.log(63), Code::kMismatch) == 3);
  }
}

TEST_CASE("Simulation: changing shapes and a small cache evict without a wrong answer") {
  Random random(3);
  std::uint64_t evictions = 0;
  for (std::size_t world_number = 0; world_number < worlds(); ++world_number) {
    Simulator simulator(world(random, 10));
    plan(simulator, {.steps = 8, .changing = true}, random);
    simulator.run();
    check(simulator);
    CHECK(count(simulator.log(0), Code::kOk) == 8 * 13);
    evictions += simulator.at(0).stats().evictions;
  }
  CHECK(evictions > worlds());
}

TEST_CASE("Simulation: a planted mismatch is one error on all ranks and the job goes on") {
  Random random(4);
  for (std::size_t world_number = 0; world_number < worlds(); ++world_number) {
    SimulatorOptions options = world(random, 10);
    Simulator simulator(options);
    plan(simulator, {.changing = true, .mismatches = true}, random);
    simulator.run();
    check(simulator);
    const std::size_t planted = options.members.size() == 1 ? 0 : 6;
    CHECK(count(simulator.log(0), Code::kMismatch) == planted);
    CHECK(count(simulator.log(0), Code::kOk) == 6 * 13 - planted);
  }
}

TEST_CASE("Simulation: a doubled name is refused, and the first fails everywhere or nowhere") {
  Random random(5);
  std::size_t failed = 0;
  for (std::size_t world_number = 0; world_number < worlds(); ++world_number) {
    Simulator simulator(world(random, 10));
    plan(simulator, {.doubles = true}, random);
    simulator.run();
    check(simulator);
    failed += count(simulator.log(0), Code::kDuplicateName);
  }
  CHECK(failed > 3 * worlds());
}

TEST_CASE("Simulation: truncated and stray frames change nothing") {
  Random random(6);
  for (int world_number = 0; world_number < 20; ++world_number) {
    SimulatorOptions options = world(random, 8);
    options.disturb = true;
    Simulator simulator(options);
    plan(simulator, {.changing = true, .mismatches = true}, random);
    simulator.run();
    check(simulator);
  }
}

TEST_CASE("Simulation: ranks that join early count as ready for allreduce, and all join together") {
  Random random(7);
  for (std::size_t world_number = 0; world_number < worlds(); ++world_number) {
    Simulator simulator(world(random, 10));
    std::size_t most = 0;
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      std::size_t longest = 0;
      for (std::size_t member = 0; member < simulator.size(); ++member) {
        const std::size_t steps = pick(random, 5);
        longest = std::max(longest, steps);
        for (std::size_t step = 0; step < steps; ++step) {
          std::vector<std::size_t> order = {0, 1, 2, 4};  // allreduces
          std::shuffle(order.begin(), order.end(), random);
          for (const std::size_t which : order) {
            simulator.plan(member, {request_of(simulator, which, epoch)});
          }
          Action unnamed{request_of(simulator, 100, step)};
          unnamed.request.name.clear();
          simulator.plan(member, unnamed);
        }
        Action join;
        join.join = true;
        simulator.plan(member, join);
      }
      most += longest;
    }
    simulator.run();
    check(simulator);
    CHECK(count(simulator.log(0), Code::kOk) == most * 5 + 3);
  }
}

TEST_CASE("Simulation: a broadcast that meets a joined rank fails on all ranks") {
  Random random(8);
  for (std::size_t world_number = 0; world_number < worlds(); ++world_number) {
    SimulatorOptions options = world(random, 10);
    options.members.push_back(options.members.back() + 1);
    options.hosts.push_back(0);
    Simulator simulator(options);
    const std::size_t early = pick(random, simulator.size());
    Request broadcast = request_of(simulator, 3, 0);
    for (std::size_t member = 0; member < simulator.size(); ++member) {
      simulator.plan(member, {broadcast});  // known to the cache
      if (member != early) simulator.plan(member, {broadcast});
      Action join;
      join.join = true;
      simulator.plan(member, join);
      simulator.plan(member, {broadcast});
    }
    simulator.run();
    check(simulator);
    const auto& log = simulator.log(0);
    CHECK(count(log, Code::kMismatch) == 1);
    CHECK(log.size() == 4);
    CHECK(log[1].message.find(fmt::format("rank {} has joined", options.members[early])) !=
          std::string::npos);
  }
}

TEST_CASE("Simulation: after a death nothing is agreed that the dead rank had not submitted") {
  Random random(9);
  for (std::size_t world_number = 0; world_number < worlds(); ++world_number) {
    Simulator simulator(world(random, 10));
    plan(simulator, {.changing = true}, random);
    const std::size_t moment = pick(random, 400);
    for (std::size_t event = 0; event < moment && simulator.step(); ++event) {
    }
    simulator.kill(pick(random, simulator.size()));
    simulator.run();
    for (const std::string& violation : simulator.violations()) FAIL_CHECK(violation);
  }
}

TEST_CASE("Simulation: overlapping process sets finish whatever order their frames take") {
  Random random(10);
  for (int world_number = 0; world_number < 20; ++world_number) {
    std::vector<std::unique_ptr<Simulator>> sets;
    for (int set = 0; set < 3; ++set) {
      SimulatorOptions options;
      options.seed = random();
      options.members = {set, set + 1, set + 2};  // each overlaps the next
      options.hosts = {0, set % 2, 1};
      sets.push_back(std::make_unique<Simulator>(options));
      plan(*sets.back(), {.mismatches = true}, random);
    }
    std::size_t idle = 0;
    while (idle < 100) idle = sets[pick(random, 3)]->step() ? 0 : idle + 1;
    for (const auto& set : sets) check(*set);
  }
}

}  // namespace ronde
