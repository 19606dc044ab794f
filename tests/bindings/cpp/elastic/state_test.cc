// The state of a job of one rank, without a launcher.
#include <doctest/doctest.h>
#include <ronde/elastic.h>
#include <ronde/ronde.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/contains.h"

namespace ronde {
namespace {

using elastic::Owner;
using elastic::State;
using test::contains;

std::string refusal(State& state, const std::string& name, const Tensor& given) {
  try {
    state.add(name, given);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

/// A state of one tensor, a value and a rank's own value.
struct Parts {
  std::vector<float> weights = {1, 2, 3};
  std::int64_t step = 0;
  double own = 0.5;

  void add_to(State& state) {
    state.add("weights", tensor(weights));
    state.add("step", step);
    state.add("own", own, Owner::kRank);
  }
  void change(int by) {
    for (float& weight : weights) weight += static_cast<float>(by);
    step += by;
    own += by;
  }
};

}  // namespace

TEST_CASE("restore() goes back to the last commit") {
  auto job = init();
  Parts parts;
  State state(job);
  parts.add_to(state);
  parts.change(1);
  state.commit();
  parts.change(10);
  state.restore();
  CHECK(parts.weights == std::vector<float>{2, 3, 4});
  CHECK(parts.step == 1);
  CHECK(parts.own == 1.5);
  CHECK(state.step() == 1);
}

TEST_CASE("restore() before the first copy changes nothing") {
  auto job = init();
  Parts parts;
  State state(job);
  parts.add_to(state);
  parts.change(2);
  state.restore();
  CHECK(parts.step == 2);
}

TEST_CASE("commits and syncs count up") {
  auto job = init();
  Parts parts;
  State state(job);
  parts.add_to(state);
  for (int i = 0; i < 5; ++i) state.commit();
  state.sync();
  state.check_host_updates();
  CHECK(state.step() == 7);
}

TEST_CASE("tensors without elements can be in a state") {
  auto job = init();
  std::vector<float> nothing;
  State state(job);
  state.add("nothing", tensor(nothing));
  state.commit();
  state.restore();
  state.sync();
  CHECK(state.step() == 3);
}

TEST_CASE("add() refuses what it cannot copy, by name") {
  auto job = init();
  std::vector<float> values(2);
  const std::vector<float> constant(2);
  State state(job);
  CHECK(contains(refusal(state, "gpu", on_cuda(tensor(values), 1, nullptr)), "\"gpu\""));
  CHECK(contains(refusal(state, "gpu", on_cuda(tensor(values), 1, nullptr)), "CUDA device 1"));
  CHECK(contains(refusal(state, "fixed", tensor(constant)), "\"fixed\" is not written in place"));
  CHECK(refusal(state, "values", tensor(values)).empty());
  CHECK(contains(refusal(state, "values", tensor(values)), "\"values\" is in the state already"));
  state.commit();
  CHECK(contains(refusal(state, "late", tensor(values)), "add all parts before"));
}

TEST_CASE("run() returns true once the function has returned") {
  auto job = init();
  Parts parts;
  State state(job);
  parts.add_to(state);
  CHECK(elastic::run(state, [&] {
    while (parts.step < 3) {
      parts.change(1);
      state.commit();
    }
  }));
  CHECK(parts.step == 3);
}

TEST_CASE("run() restores and calls again after a failure of a job of one rank") {
  auto job = init();
  Parts parts;
  State state(job);
  parts.add_to(state);
  int resets = 0;
  state.on_reset([&] { ++resets; });
  bool failed = false;
  CHECK(elastic::run(state, [&] {
    parts.change(1);
    if (!failed) {
      failed = true;
      parts.change(100);
      throw Error(Code::kAborted, "planted");
    }
  }));
  CHECK(parts.step == 1);
  CHECK(resets == 1);
  CHECK(job.size() == 1);
}

TEST_CASE("interrupt() ends waits of the job that there is now") {
  auto job = init();
  State state(job);
  bool failed = false;
  CHECK(elastic::run(state, [&] {
    if (!std::exchange(failed, true)) throw Error(Code::kAborted, "planted");
    std::vector<std::byte> nothing(1);
    const Pending never = job.recv_async(0, 7, nothing);
    job.interrupt();
    CHECK_THROWS_AS(never.wait(), Interrupted);
  }));
}

TEST_CASE("run() passes on errors that would come again, and others' exceptions") {
  auto job = init();
  Parts parts;
  State state(job);
  parts.add_to(state);
  CHECK_THROWS_AS((void)elastic::run(state, [] { throw Mismatch("planted"); }), Mismatch);
  CHECK_THROWS_AS((void)elastic::run(state, [] { throw InvalidArgument("planted"); }),
                  InvalidArgument);
  CHECK_THROWS_AS((void)elastic::run(state, [] { throw Interrupted("planted"); }), Interrupted);
  CHECK_THROWS_AS((void)elastic::run(state, [] { throw std::logic_error("planted"); }),
                  std::logic_error);
}

}  // namespace ronde
