#include "bindings/runtime/worker_history.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "timeline/recording/trace_head.h"

namespace ronde {
namespace {

/// Keeps begins and ends, in order, with their times.
class Kept : public EventSink {
 public:
  void begin(std::string_view track, std::string_view event, const EventArgs& args) override {
    CHECK(track == kRecoveryTrack);
    events.emplace_back(event, args.at_ns);
  }
  void end(std::string_view /*track*/, const EventArgs& args) override {
    events.emplace_back("end", args.at_ns);
  }
  void span(std::string_view /*track*/, std::string_view /*event*/, TimeSpan /*times*/,
            const EventArgs& /*args*/) override {}
  void instant(std::string_view /*track*/, std::string_view /*event*/) override {}
  void counter(std::string_view /*name*/, double /*value*/) override {}
  std::vector<std::pair<std::string, std::int64_t>> events;
};

void end_operation(Meter& meter, Code code = Code::kOk) {
  meter.submitted(0, 8);
  meter.ended(EndedOperation{.kind = 0, .bytes = 8, .code = code, .ended_ns = steady_ns()});
}

std::uint64_t count_of(const DurationHistogram& durations) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i <= DurationHistogram::kBoundsNs.size(); ++i) {
    count += durations.in_bucket(i);
  }
  return count;
}

/// Goes to the next epoch, whose ranks are connected.
void go_on(WorkerHistory& history, bool failed) {
  history.on_ready(failed);
  history.on_placed();
  history.on_connected();
}

}  // namespace

TEST_CASE("worker history: a worker of an elastic job has one, others have none") {
  Config config;
  CHECK(WorkerHistory::of(config) == nullptr);
  config.worker = 901;
  CHECK(WorkerHistory::of(config) == nullptr);
  config.epoch = 1;
  WorkerHistory* const history = WorkerHistory::of(config);
  REQUIRE(history != nullptr);
  config.epoch = 2;
  CHECK(WorkerHistory::of(config) == history);
  config.worker = 902;
  CHECK(WorkerHistory::of(config) != history);
}

TEST_CASE("worker history: a recovery lasts from the failure to the first operation's end") {
  WorkerHistory history;
  go_on(history, false);
  end_operation(history.meter());
  CHECK_FALSE(history.take_transition());  // the first epoch
  end_operation(history.meter(), Code::kRankFailure);
  history.on_broken();
  history.on_broken();  // the end of the runtime is no second failure
  go_on(history, true);
  CHECK_FALSE(history.take_transition());
  end_operation(history.meter());
  const auto transition = history.take_transition();
  REQUIRE(transition);
  CHECK(transition->failed);
  CHECK(transition->left_ns > 0);
  CHECK(transition->left_ns <= transition->ready_ns);
  CHECK(transition->ready_ns <= transition->placed_ns);
  CHECK(transition->placed_ns <= transition->connected_ns);
  CHECK(transition->connected_ns <= transition->ended_ns);
  CHECK_FALSE(history.take_transition());
  CHECK(count_of(history.recoveries()) == 1);
  CHECK(history.recoveries().sum_ns() ==
        static_cast<std::uint64_t>(transition->ended_ns - transition->left_ns));
  CHECK(count_of(history.changes()) == 0);
}

TEST_CASE("worker history: a failure while an epoch begins makes the recovery longer") {
  WorkerHistory history;
  go_on(history, false);
  end_operation(history.meter());
  (void)history.take_transition();
  history.on_broken();
  history.on_ready(true);
  history.on_placed();
  history.on_broken();
  go_on(history, true);
  end_operation(history.meter());
  REQUIRE(history.take_transition());
  CHECK(count_of(history.recoveries()) == 1);
}

TEST_CASE("worker history: a change of workers is no recovery") {
  WorkerHistory history;
  go_on(history, false);
  end_operation(history.meter());
  (void)history.take_transition();
  history.on_broken();
  go_on(history, false);
  end_operation(history.meter());
  REQUIRE(history.take_transition());
  CHECK(count_of(history.recoveries()) == 0);
  CHECK(count_of(history.changes()) == 1);
}

TEST_CASE("worker history: counts and steps go on from epoch to epoch") {
  WorkerHistory history;
  for (int epoch = 0; epoch < 3; ++epoch) {
    go_on(history, false);
    end_operation(history.meter());
    history.add_steps(10);
  }
  CHECK(history.meter().kind(0).ended.get() == 3);
  CHECK(history.earlier_steps() == 30);
}

TEST_CASE("worker history: a transition is shown as a span whose parts fill it") {
  Kept kept;
  show_transition({true, 10, 20, 30, 40, 50}, kept);
  CHECK(kept.events ==
        std::vector<std::pair<std::string, std::int64_t>>{{"RECOVERY", 10},
                                                          {"leave the epoch", 10},
                                                          {"end", 20},
                                                          {"wait for the next epoch", 20},
                                                          {"end", 30},
                                                          {"connect", 30},
                                                          {"end", 40},
                                                          {"first operation", 40},
                                                          {"end", 50},
                                                          {"end", 50}});
}

}  // namespace ronde
