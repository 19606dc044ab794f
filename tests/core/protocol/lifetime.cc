#include "tests/core/protocol/lifetime.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <random>

#include "tests/core/protocol/simulator.h"

namespace ronde {
namespace {

using Random = std::mt19937_64;

constexpr std::size_t kLarge = 256;

std::size_t pick(Random& random, std::size_t below) {
  return static_cast<std::size_t>(random() % below);
}

SimulatorOptions world_of(const Lifetime& life) {
  Random random(life.seed ^ 0x5eed);
  SimulatorOptions options;
  options.seed = life.seed;
  options.cache_capacity = life.cache_capacity;
  options.disturb = life.disturb;
  options.payload_bytes = life.payload_bytes;
  options.check_every = life.members < kLarge ? 1 : 97;
  for (std::size_t member = 0; member < life.members; ++member) {
    options.members.push_back(static_cast<int>(member));
    const std::size_t host =
        life.members < kLarge ? pick(random, life.hosts) : member * life.hosts / life.members;
    options.hosts.push_back(static_cast<int>(host));
  }
  return options;
}

Request request_of(std::size_t which, std::size_t version, std::size_t members) {
  Request request;
  request.name = fmt::format("t{}", which);
  request.kind = which % 4 == 3 ? Collective::kBroadcast : Collective::kAllreduce;
  if (request.kind == Collective::kBroadcast) request.root = static_cast<int>(which % members);
  request.tensors = {{DType::kFloat32, {2, static_cast<std::int64_t>(3 + version)}}};
  request.priority = static_cast<std::int32_t>(which % 3);
  return request;
}

/// The operations that one rank submits in one step, in an order of its own.
std::vector<Action> actions_of(const Lifetime& life, std::size_t step, std::size_t member,
                               Random& shared, Random& own) {
  const std::size_t odd_member = pick(shared, life.members);
  const std::size_t victim = pick(shared, life.tensors);
  const std::size_t version = life.changing ? step / 2 : 0;
  std::vector<Action> actions;
  for (std::size_t which = 0; which < life.tensors; ++which) {
    Action action{request_of(which, version, life.members)};
    action.request.call_site = fmt::format("rank{}.py:{}", member, step);
    const bool odd = member == odd_member && which == victim;
    if (odd && life.mismatches) action.request.tensors[0].shape[0] = 99;
    action.twice = odd && life.doubles;
    actions.push_back(std::move(action));
  }
  std::shuffle(actions.begin(), actions.end(), own);
  for (std::size_t i = 0; i < life.unnamed; ++i) {
    Action action{request_of(100 + i * 4, version, life.members)};
    action.request.name.clear();
    actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(i % (actions.size() + 1)), action);
  }
  return actions;
}

void plan(Simulator& simulator, const Lifetime& life) {
  for (std::size_t member = 0; member < life.members; ++member) {
    Random own(life.seed + 1000 + member);
    for (std::size_t step = 0; step < life.steps; ++step) {
      Random shared(life.seed * 31 + step);
      for (Action& action : actions_of(life, step, member, shared, own)) {
        simulator.plan(member, std::move(action));
      }
    }
    if (!life.joins) continue;
    Action join;
    join.join = true;
    simulator.plan(member, join);
  }
}

/// Frames of the busiest rank: a few for each item and neighbour in the tree, where hosts are even.
void check_frames(const Simulator& simulator, std::vector<std::string>& wrong) {
  std::size_t most = 0;
  for (std::size_t member = 0; member < simulator.size(); ++member) {
    most = std::max(most, simulator.frames(member));
  }
  const std::size_t items = simulator.log(0).size();
  const std::size_t limit = items * 4 * std::bit_width(simulator.size());
  if (most > limit) wrong.push_back(fmt::format("{} frames for {} items", most, items));
}

bool is_large(const Lifetime& life) { return life.members >= kLarge; }

/// The survivors' next job: as many ranks less one, and nothing that dies.
Lifetime next_life(Lifetime life) {
  life.seed += 7777;
  --life.members;
  life.steps = 1;
  life.death_after.reset();
  return life;
}

}  // namespace

Lifetime draw_lifetime(std::uint64_t seed, bool large) {
  Random random(seed);
  Lifetime life;
  life.seed = seed;
  life.members = large ? 1024 + pick(random, 3) * pick(random, 1537) : 1 + pick(random, 16);
  life.hosts = large ? life.members / 8 : 1 + pick(random, 6);
  life.steps = large ? 1 : 1 + pick(random, 4);
  life.tensors = 1 + pick(random, large ? 3 : 8);
  life.unnamed = pick(random, large ? 2 : 3);
  life.cache_capacity = pick(random, 12);
  life.changing = pick(random, 2) == 0;
  life.mismatches = pick(random, 3) == 0;
  life.doubles = !large && pick(random, 4) == 0;
  life.disturb = !large && pick(random, 8) == 0;
  const bool dies = pick(random, 3) == 0;
  if (dies) life.death_after = pick(random, large ? 12 : 40 * life.members);
  life.joins = !dies && !life.mismatches && pick(random, 4) == 0;
  life.payload_bytes = pick(random, 4) == 0 ? 0 : life.members * (24 + pick(random, 200));
  return life;
}

std::vector<std::string> live(const Lifetime& life) {
  Simulator simulator(world_of(life));
  plan(simulator, life);
  if (life.death_after) {
    for (std::size_t event = 0; event < *life.death_after; ++event) {
      if (!(is_large(life) ? simulator.sweep() : simulator.step())) break;
    }
    simulator.kill(static_cast<std::size_t>(life.seed % life.members));
  }
  simulator.run();
  std::vector<std::string> wrong = simulator.violations();
  if (!life.death_after) {
    if (!simulator.finished()) wrong.emplace_back("it has not ended");
    if (is_large(life)) check_frames(simulator, wrong);
  } else if (life.members > 1) {
    for (std::string& text : live(next_life(life))) wrong.push_back("after the death: " + text);
  }
  return wrong;
}

Lifetime minimise(Lifetime life) {
  using Change = std::function<void(Lifetime&)>;
  const std::vector<Change> changes = {
      [](Lifetime& l) { l.members = std::max<std::size_t>(1, l.members / 2); },
      [](Lifetime& l) { l.members = std::max<std::size_t>(1, l.members - 1); },
      [](Lifetime& l) { l.hosts = 1; },
      [](Lifetime& l) { l.steps = std::max<std::size_t>(1, l.steps - 1); },
      [](Lifetime& l) { l.tensors = std::max<std::size_t>(1, l.tensors - 1); },
      [](Lifetime& l) { l.unnamed = 0; },
      [](Lifetime& l) { l.changing = l.disturb = false; },
      [](Lifetime& l) { l.mismatches = false; },
      [](Lifetime& l) { l.doubles = false; },
      [](Lifetime& l) { l.joins = false; },
      [](Lifetime& l) { l.payload_bytes = 0; },
      [](Lifetime& l) { l.death_after.reset(); },
      [](Lifetime& l) { l.death_after = l.death_after ? *l.death_after / 2 : l.death_after; }};
  for (bool simpler = true; simpler;) {
    simpler = false;
    for (const Change& change : changes) {
      Lifetime tried = life;
      change(tried);
      if (describe(tried) == describe(life) || live(tried).empty()) continue;
      life = tried;
      simpler = true;
    }
  }
  return life;
}

std::string describe(const Lifetime& life) {
  return fmt::format(
      R"({{"seed": {}, "members": {}, "hosts": {}, "steps": {}, "tensors": {}, "unnamed": {}, )"
      R"("cache_capacity": {}, "changing": {}, "mismatches": {}, "doubles": {}, "disturb": {}, )"
      R"("payload_bytes": {}, "joins": {}, "death_after": {}}})",
      life.seed, life.members, life.hosts, life.steps, life.tensors, life.unnamed,
      life.cache_capacity, life.changing, life.mismatches, life.doubles, life.disturb,
      life.payload_bytes, life.joins,
      life.death_after ? fmt::to_string(*life.death_after) : "null");
}

}  // namespace ronde
