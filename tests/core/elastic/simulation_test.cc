// Elastic jobs in a simulator: workers die, freeze, leave and join at random moments, while notes
// are under way. At most one epoch makes progress, no worker is in two, and once the faults stop
// all workers that there is room for work together.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <random>

#include "core/elastic/director.h"

namespace ronde::elastic {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A process of the simulated job.
struct SimWorker {
  std::string host;
  bool alive = true;
  bool frozen = false;
  bool leaving = false;
  bool holds = false;
  CopyStep step = kNoCopy;  // of its copies of the state: its own, or those that it was given
  EpochId epoch = 0;        // that it works in; 0: none
  EpochId last = 0;
  TimePoint to_worker{}, to_director{};  // the latest note under way arrives then: order is kept
};

/// An epoch as its members see it.
struct SimEpoch {
  std::vector<WorkerId> members;
  std::size_t entered = 0;
  bool connected = false;  // all members have come; a death before keeps them from it
  bool broken = false;
  bool to_end = false;  // a change has arrived
  int commits = 0;
};

struct World {
  World(unsigned seed, const DirectorOptions& options, int hosts, int slots)
      : random(seed), director(options) {
    for (int i = 0; i < hosts; ++i) places.push_back({"h" + std::to_string(i), slots});
    director.set_hosts(places, time);
    carry_out();
  }

  [[nodiscard]] Duration between(Duration least, Duration most) {
    return Duration(
        std::uniform_int_distribution<std::int64_t>(least.count(), most.count())(random));
  }
  void at(TimePoint when, std::function<void()> what) {
    events.push({when, number++, std::move(what)});
  }
  void after(Duration delay, std::function<void()> what) { at(time + delay, std::move(what)); }

  void run_until(TimePoint end) {
    while (true) {
      const TimePoint next =
          std::min(events.empty() ? kForever : events.top().when, director.next_deadline(time));
      if (next > end) break;
      time = std::max(time, next);
      if (!events.empty() && events.top().when <= time) {
        const auto what = events.top().what;
        events.pop();
        what();
      } else {
        director.on_time(time);
      }
      carry_out();
    }
    time = end;
  }

  void carry_out() {
    for (const Command& command : director.take_commands()) {
      std::visit([&](const auto& one) { act(one); }, command);
    }
  }

  // Commands.
  void act(const StartWorker& start) {
    workers[start.worker].host = start.host;
    after(milliseconds(20), [this, id = start.worker] { give_copies(id); });
    after(between(milliseconds(50), seconds(3)), [this, id = start.worker] { send_ready(id, {}); });
  }
  void act(const TryHost& trial) {
    after(between(milliseconds(1), milliseconds(40)), [this, host = trial.host] {
      const bool cut = std::uniform_int_distribution<int>(0, 9)(random) == 0;
      director.on_host_tried(host, cut ? "a does not reach b" : "", time);
    });
  }
  /// As the agent of its host does when the worker starts.
  void give_copies(WorkerId id) {
    SimWorker& worker = workers.at(id);
    if (!worker.alive) return;
    auto& kept = agents[worker.host];
    const auto taken = std::ranges::max_element(kept);
    if (taken != kept.end()) {
      worker.step = *taken;
      kept.erase(taken);
    }
    to_director(id, [this, id, step = worker.step] { director.on_started(id, step); });
  }
  /// The newest step of which a worker or an agent has a copy.
  [[nodiscard]] CopyStep newest_copy() const {
    CopyStep best = kNoCopy;
    for (const auto& [host, kept] : agents) {
      for (const CopyStep step : kept) best = std::max(best, step);
    }
    for (const auto& [id, worker] : workers) {
      if (worker.alive) best = std::max(best, worker.step);
    }
    return best;
  }
  void act(const StopWorker& stop) {
    after(milliseconds(1), [this, id = stop.worker] { die(id, 137); });
  }
  void act(const BeginEpoch& begin) {
    CHECK(begin.epoch == newest + 1);
    newest = begin.epoch;
    SimEpoch& epoch = epochs[begin.epoch];
    CopyStep best = kNoCopy;
    for (const EpochWorker& member : begin.workers) {
      best = std::max(best, workers.at(member.worker).step);
    }
    CHECK(best >= newest_copy());
    for (const EpochWorker& member : begin.workers) {
      epoch.members.push_back(member.worker);
      SimWorker& worker = workers.at(member.worker);
      CHECK(worker.epoch == 0);
      CHECK(worker.last < begin.epoch);
      to_worker(member.worker, [this, id = member.worker, e = begin.epoch] { enter(id, e); });
    }
    for (const auto& entry : workers) {
      const bool works = entry.second.alive && entry.second.epoch != 0;
      CHECK_MESSAGE(!works, entry.first);
    }
  }
  void act(const SendChange& change) {
    for (const WorkerId id : change.workers) {
      to_worker(id, [this, id, e = change.note.epoch] {
        if (workers.at(id).epoch == e) epochs.at(e).to_end = true;
      });
    }
  }
  void act(const SendVoid& end) {
    for (const WorkerId id : end.workers) {
      to_worker(id, [this, id, e = end.note.epoch] {
        if (workers.at(id).epoch == e && !epochs.at(e).connected) send_ready(id, {}, false);
      });
    }
  }
  void act(const DismissWorker& dismissed) {
    workers.at(dismissed.worker).leaving = true;
    to_worker(dismissed.worker, [this, id = dismissed.worker] { die(id, 0); });
  }
  void act(const Report&) {}
  void act(const FailJob& failure) {
    failed = true;
    MESSAGE(failure.text);
  }

  void to_worker(WorkerId id, std::function<void()> what) {
    SimWorker& worker = workers.at(id);
    worker.to_worker = std::max(worker.to_worker, time + between(Duration{0}, milliseconds(20)));
    at(worker.to_worker, [this, id, what = std::move(what)] {
      if (workers.at(id).alive) what();
    });
  }
  /// A worker's note; the launcher sees all that a process sent before its end.
  void to_director(WorkerId id, std::function<void()> what) {
    SimWorker& worker = workers.at(id);
    worker.to_director =
        std::max(worker.to_director, time + between(Duration{0}, milliseconds(20)));
    at(worker.to_director, std::move(what));
  }

  // Workers.
  void send_ready(WorkerId id, std::vector<WorkerId> suspects, bool began = true) {
    SimWorker& worker = workers.at(id);
    if (!worker.alive || worker.frozen) return;
    worker.epoch = 0;
    const bool can_resume = worker.step != kNoCopy;
    ReadyNote note{worker.last, began, worker.holds, can_resume, std::move(suspects), "lost"};
    to_director(id, [this, id, note] { director.on_ready(id, note, time); });
  }
  void enter(WorkerId id, EpochId e) {
    SimWorker& worker = workers.at(id);
    worker.epoch = worker.last = e;
    SimEpoch& epoch = epochs.at(e);
    ++epoch.entered;
    epoch.connected = std::ranges::all_of(epoch.members, [&](WorkerId member) {
      return workers.at(member).alive && workers.at(member).epoch == e;
    });
    if (epoch.connected) after(milliseconds(100), [this, e] { commit(e); });
  }
  /// All members take a step together, if they are all there.
  void commit(EpochId e) {
    SimEpoch& epoch = epochs.at(e);
    if (epoch.broken) return;
    CHECK(e == newest);
    ++epoch.commits;
    ++progress;
    for (const WorkerId id : epoch.members) {
      CHECK(workers.at(id).epoch == e);
      workers.at(id).step = progress;
      if (!std::exchange(workers.at(id).holds, true)) {
        to_director(id, [this, id] { director.on_holds(id); });
      }
    }
    if (!epoch.to_end)
      return after(between(milliseconds(10), milliseconds(400)), [this, e] { commit(e); });
    epoch.broken = true;
    for (const WorkerId id : epoch.members) {
      after(between(Duration{0}, milliseconds(30)), [this, id, e] {
        if (workers.at(id).epoch == e) send_ready(id, {});
      });
    }
  }
  /// A member learns, some time later, that the epoch is broken.
  void notice(WorkerId id, EpochId e, std::vector<WorkerId> suspects) {
    after(between(milliseconds(1), milliseconds(800)), [this, id, e, suspects] {
      if (workers.at(id).epoch == e) send_ready(id, suspects);
    });
  }
  void break_epoch(EpochId e, WorkerId lost) {
    if (e == 0 || !epochs.at(e).connected || std::exchange(epochs.at(e).broken, true)) return;
    for (const WorkerId id : epochs.at(e).members) {
      if (id != lost) notice(id, e, {lost});
    }
  }
  void die(WorkerId id, int status) {
    SimWorker& worker = workers.at(id);
    if (!std::exchange(worker.alive, false)) return;
    break_epoch(working_in(id), id);
    worker.epoch = 0;
    const CopyStep left = status == 0 ? kNoCopy : worker.step;
    if (left != kNoCopy) agents[worker.host].push_back(left);
    to_director(id, [this, id, status, left] {
      director.on_ended(id, {status, "ended", left}, time);
    });
  }
  void freeze(WorkerId id) {
    if (!workers.at(id).alive) return;
    workers.at(id).frozen = true;
    after(seconds(60), [this, id] {  // its agent has seen it
      to_director(id, [this, id] { director.on_frozen(id, seconds(60), time); });
    });
  }
  /// The epoch that counts on this worker, whether or not its note has arrived.
  [[nodiscard]] EpochId working_in(WorkerId id) const {
    const auto epoch = epochs.find(newest);
    if (epoch == epochs.end() || !std::ranges::count(epoch->second.members, id)) return 0;
    return workers.at(id).last == newest && workers.at(id).epoch == 0 ? 0 : newest;
  }
  void leave(WorkerId id) {
    if (!workers.at(id).alive || std::exchange(workers.at(id).leaving, true)) return;
    to_director(id, [this, id] { director.on_leaving(id, time); });
  }

  [[nodiscard]] std::vector<WorkerId> living() const {
    std::vector<WorkerId> ids;
    for (const auto& [id, worker] : workers) {
      if (worker.alive && !worker.frozen) ids.push_back(id);
    }
    return ids;
  }
  WorkerId some_worker() {
    const std::vector<WorkerId> ids = living();
    return ids.empty() ? 0
                       : ids[std::uniform_int_distribution<std::size_t>(0, ids.size() - 1)(random)];
  }

  struct Event {
    TimePoint when;
    std::uint64_t number = 0;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::pair(when, number) > std::pair(other.when, other.number);
    }
  };
  std::mt19937 random;
  Director director;
  TimePoint time = TimePoint(seconds(1));
  std::vector<HostPlaces> places;
  std::priority_queue<Event> events;
  std::uint64_t number = 0;
  std::map<WorkerId, SimWorker> workers;
  std::map<std::string, std::vector<CopyStep>> agents;  // copies that they keep, by host
  std::map<EpochId, SimEpoch> epochs;
  EpochId newest = 0;
  int progress = 0;
  bool failed = false;
};

/// One fault of a kind that the seed chooses. Some worker always keeps the state.
void strike(World& world) {
  const WorkerId id = world.some_worker();
  if (id == 0 || world.living().size() < 3) return;
  const bool last_holder = std::ranges::count_if(world.workers, [](const auto& entry) {
                             return entry.second.alive && !entry.second.frozen &&
                                    entry.second.holds && !entry.second.leaving;
                           }) < 3;
  if (last_holder && world.workers.at(id).holds) return;
  const int kind = std::uniform_int_distribution<int>(0, 9)(world.random);
  if (kind < 6) world.die(id, 137);
  if (kind == 6) world.freeze(id);
  if (kind == 7) world.leave(id);
  if (kind >= 8) {
    auto& place = world.places[static_cast<std::size_t>(kind) % world.places.size()];
    place.slots = std::max(1, place.slots + (kind == 8 ? 1 : -1));
    world.director.set_hosts(world.places, world.time);
    world.carry_out();
  }
}

int slots(const World& world) {
  int sum = 0;
  for (const HostPlaces& place : world.places) sum += place.slots;
  return sum;
}

/// After the faults: all living workers work together, as many as there is room for.
void check_recovered(World& world) {
  world.run_until(world.time + seconds(300));
  REQUIRE_FALSE(world.failed);
  const SimEpoch& epoch = world.epochs.at(world.newest);
  std::vector<WorkerId> working = epoch.members;
  std::ranges::sort(working);
  CHECK_FALSE(epoch.broken);
  CHECK(epoch.entered == working.size());
  CHECK_MESSAGE(working == world.living(), working.size());
  const auto left =
      std::ranges::count_if(world.workers, [](const auto& e) { return e.second.leaving; });
  CHECK(static_cast<int>(working.size()) >= slots(world) - static_cast<int>(left));
  const int before = world.progress;
  world.run_until(world.time + seconds(5));
  CHECK(world.progress > before);
}

void simulate(unsigned seed, int hosts, int places, int faults) {
  CAPTURE(seed);
  World world(seed, {}, hosts, places);
  world.run_until(world.time + seconds(10));
  for (int i = 0; i < faults; ++i) {
    world.run_until(world.time + world.between(milliseconds(1), seconds(4)));
    strike(world);
  }
  check_recovered(world);
}

TEST_CASE("elastic simulation: small jobs recover from any faults") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    simulate(seed, 1 + static_cast<int>(seed % 4), 2 + static_cast<int>(seed % 5), 30);
  }
}

TEST_CASE("elastic simulation: the last commit is never lost, whoever dies, and when") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    DirectorOptions options;
    options.max_workers = seed % 2 == 0 ? 2 : 0;  // hosts that pause lose places to others
    World world(seed, options, 1 + static_cast<int>(seed % 3), 1 + static_cast<int>(seed % 3));
    world.run_until(world.time + seconds(10));
    for (int i = 0; i < 12; ++i) {
      const auto deaths = std::uniform_int_distribution<int>(1, 3)(world.random);
      for (int death = 0; death < deaths; ++death) {
        world.run_until(world.time + world.between(Duration{0}, milliseconds(200)));
        if (const WorkerId id = world.some_worker()) world.die(id, 137);
      }
      world.run_until(world.time + world.between(milliseconds(1), seconds(5)));
    }
    world.run_until(world.time + seconds(300));
    CHECK_FALSE(world.failed);
    CHECK(world.epochs.at(world.newest).entered == world.living().size());
  }
}

TEST_CASE("elastic simulation: a job of 4,096 workers recovers") { simulate(7, 64, 64, 12); }

TEST_CASE("elastic simulation: deaths at the same moment as an epoch's beginning") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    World world(seed, {}, 1, 6);
    world.run_until(world.time + seconds(10));
    for (int i = 0; i < 4; ++i) {
      const EpochId before = world.newest;
      world.die(world.some_worker(), 137);
      while (world.newest == before) world.run_until(world.time + milliseconds(1));
      strike(world);  // the new epoch's notes are under way
      world.run_until(world.time + seconds(5));
    }
    check_recovered(world);
  }
}

TEST_CASE("elastic simulation: a death before an epoch's workers have met delays them shortly") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    World world(seed, {}, 1 + static_cast<int>(seed % 3), 4);
    world.run_until(world.time + seconds(10));
    const EpochId first = world.newest;
    world.die(world.some_worker(), 137);
    while (world.newest == first) world.run_until(world.time + milliseconds(1));
    const SimEpoch& epoch = world.epochs.at(world.newest);
    world.die(epoch.members[seed % epoch.members.size()], 137);
    REQUIRE_FALSE(epoch.connected);
    const EpochId hopeless = world.newest;
    world.run_until(world.time + milliseconds(100));  // three notes, each up to 20 ms
    CHECK(world.newest > hopeless);
    check_recovered(world);
  }
}

}  // namespace
}  // namespace ronde::elastic
