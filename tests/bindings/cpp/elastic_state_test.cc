// The state of a job of one rank, without a launcher.
#include <doctest/doctest.h>
#include <ronde/elastic.h>
#include <ronde/ronde.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

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
struct Model {
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
  Model model;
  State state(job);
  model.add_to(state);
  model.change(1);
  state.commit();
  model.change(10);
  state.restore();
  CHECK(model.weights == std::vector<float>{2, 3, 4});
  CHECK(model.step == 1);
  CHECK(model.own == 1.5);
  CHECK(state.step() == 1);
}

TEST_CASE("restore() before the first copy changes nothing") {
  auto job = init();
  Model model;
  State state(job);
  model.add_to(state);
  model.change(2);
  state.restore();
  CHECK(model.step == 2);
}

TEST_CASE("commits and syncs count up") {
  auto job = init();
  Model model;
  State state(job);
  model.add_to(state);
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
  Model model;
  State state(job);
  model.add_to(state);
  CHECK(elastic::run(state, [&] {
    while (model.step < 3) {
      model.change(1);
      state.commit();
    }
  }));
  CHECK(model.step == 3);
}

TEST_CASE("run() restores and calls again after a failure of a job of one rank") {
  auto job = init();
  Model model;
  State state(job);
  model.add_to(state);
  int resets = 0;
  state.on_reset([&] { ++resets; });
  bool failed = false;
  CHECK(elastic::run(state, [&] {
    model.change(1);
    if (!failed) {
      failed = true;
      model.change(100);
      throw Error(Code::kAborted, "planted");
    }
  }));
  CHECK(model.step == 1);
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
  Model model;
  State state(job);
  model.add_to(state);
  CHECK_THROWS_AS((void)elastic::run(state, [] { throw Mismatch("planted"); }), Mismatch);
  CHECK_THROWS_AS((void)elastic::run(state, [] { throw InvalidArgument("planted"); }),
                  InvalidArgument);
  CHECK_THROWS_AS((void)elastic::run(state, [] { throw Interrupted("planted"); }), Interrupted);
  CHECK_THROWS_AS((void)elastic::run(state, [] { throw std::logic_error("planted"); }),
                  std::logic_error);
}

TEST_CASE("a sampler deals each index once, and goes back with its state") {
  auto job = init();
  elastic::ExactSampler sampler(job, 10, true, 3);
  State state(job);
  state.add("sampler", sampler);
  const std::vector<std::int64_t> first = sampler.indices();
  std::vector<std::int64_t> sorted = first;
  std::ranges::sort(sorted);
  CHECK(sorted == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  sampler.record_batch(4);
  state.commit();
  CHECK(sampler.indices() == std::vector(first.begin() + 4, first.end()));
  sampler.record_batch(40);
  CHECK(sampler.done());
  sampler.set_epoch(1);
  CHECK(sampler.indices() != first);
  state.restore();
  CHECK(sampler.epoch() == 0);
  CHECK(sampler.indices().size() == 6);
  CHECK(elastic::ExactSampler(job, 3, false).indices() == std::vector<std::int64_t>{0, 1, 2});
  CHECK_THROWS_AS(elastic::ExactSampler(job, -1), InvalidArgument);
  CHECK_THROWS_AS(sampler.record_batch(0), InvalidArgument);
}

TEST_CASE("a job that is not elastic goes on from its checkpoint, without own parts") {
  const ScratchFolder folder;
  Model first;
  {
    auto job = init();
    State state(job);
    first.add_to(state);
    state.checkpoint(folder.file("new/model"));
    CHECK(elastic::run(state, [&] {
      first.change(5);
      state.commit();
    }));
  }
  auto job = init();
  Model again;
  State state(job);
  again.add_to(state);
  state.checkpoint(folder.file("new/model"));
  CHECK(elastic::run(state, [] {}));
  CHECK(again.weights == first.weights);
  CHECK(again.step == first.step);
  CHECK(again.own == 0.5);
}

/// What run() says of a state of other parts, or of another that was damaged.
template <typename Kind>
std::string said_by_run(const std::string& path, bool other_parts) {
  auto job = init();
  Model model;
  State state(job);
  model.add_to(state);
  if (other_parts) state.add("more", model.own);
  state.checkpoint(path, {.needs_whole = true});
  try {
    (void)elastic::run(state, [&] { state.commit(); });
  } catch (const Kind& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a checkpoint of other parts, or none that is whole, ends the job") {
  const ScratchFolder folder;
  CHECK(said_by_run<Error>(folder.file("model"), false).empty());
  const std::string unfit = said_by_run<InvalidArgument>(folder.file("model"), true);
  CHECK(contains(unfit, "rank 0 cannot load the checkpoint of step"));
  CHECK(contains(unfit, "the values are of a state of the parts"));
  for (const auto& file : std::filesystem::directory_iterator(folder.file(""))) {
    std::filesystem::resize_file(file.path(), 50);
  }
  for (int attempt = 0; attempt < 2; ++attempt) {  // also of files that were set aside before
    const std::string forbidden = said_by_run<elastic::JobFailed>(folder.file("model"), false);
    CHECK(contains(forbidden, "no checkpoint is whole"));
  }
}

TEST_CASE("other options of redundancy and checkpoints are refused") {
  auto job = init();
  State state(job);
  CHECK_THROWS_AS(state.set_redundancy(0), InvalidArgument);
  CHECK_THROWS_AS(state.checkpoint("model", {.every = 0}), InvalidArgument);
  CHECK_THROWS_AS(state.checkpoint("model", {.keep = 0}), InvalidArgument);
  CHECK_THROWS_AS(state.checkpoint("folder/"), InvalidArgument);
}

}  // namespace ronde
