// Submissions that their caller drives for a moment end, also if another thread ends them.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/core/engine/engine_job.h"
#include "tests/core/engine/forwarding_channel.h"
#include "tests/core/engine/noting_executor.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

using test::EngineJob;
using test::EngineRank;
using test::NotingExecutor;
using test::run;
using test::run_ranks;
using test::sum_of;

/// The calls of the background thread on its channel.
struct Background {
  std::atomic<bool> asleep = false;
  /// Called once it is armed, where the thread has looked for tasks for the last time before it
  /// sleeps. Set before the thread runs.
  std::function<void()> before_sleep;
  std::atomic<bool> armed = false;
};

/// Another channel, watched.
class WatchedChannel final : public test::ForwardingChannel {
 public:
  WatchedChannel(std::unique_ptr<ControlChannel> inner, Background& background)
      : ForwardingChannel(std::move(inner)), background_(background) {}
  bool kick() noexcept override {
    if (std::exchange(prepared_, false) && background_.armed.exchange(false)) {
      background_.before_sleep();
    }
    return ForwardingChannel::kick();
  }
  std::uint32_t prepare_wait(Sleeper who) noexcept override {
    prepared_ = who == Sleeper::kBackground;
    return ForwardingChannel::prepare_wait(who);
  }
  void wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept override {
    if (who == Sleeper::kBackground) background_.asleep = true;
    ForwardingChannel::wait(who, ticket, deadline);
    if (who == Sleeper::kBackground) background_.asleep = false;
  }

 private:
  Background& background_;
  bool prepared_ = false;  // driving thread only
};

std::unique_ptr<ControlChannel> watched(const EngineJob& job, int rank, Background& background) {
  return std::make_unique<WatchedChannel>(create_local_channel(job.hub, rank), background);
}

/// An operation that its submitter may work on for so long.
Submission helped(std::vector<float>& values, Duration help) {
  Submission submission = sum_of("helped", values);
  submission.help = help;
  return submission;
}

void await(const OperationPtr& operation) {
  while (!operation->done()) std::this_thread::yield();
}

}  // namespace

TEST_CASE("Engine: a submitter that helps ends a lone operation before submit returns") {
  EngineJob job(1);
  EngineRank rank(job, 0);
  std::thread::id ran{};
  rank.engine->add_set(1, {0}, std::make_unique<NotingExecutor>(ran));
  std::vector<float> values(4);
  bool ended = false;
  for (int i = 0; i < 10000 && !ended; ++i) {  // the background thread may be driving
    auto operation = rank.engine->submit(1, helped(values, std::chrono::seconds(1)));
    REQUIRE(operation.ok());
    ended = (*operation)->done() && ran == std::this_thread::get_id();
    REQUIRE(rank.engine->wait(*operation, {}).ok());
  }
  CHECK(ended);
}

TEST_CASE("Engine: help leaves an operation that others have not submitted") {
  EngineJob job(2);
  run_ranks(2, [&](int r) {
    EngineRank rank(job, r);
    std::vector<float> values = {1.0F};
    std::vector<float> token = {0.0F};
    if (r == 1) REQUIRE(run(*rank.engine, kGlobalSet, sum_of("token", token)).ok());
    auto late = rank.engine->submit(kGlobalSet, helped(values, std::chrono::milliseconds(1)));
    REQUIRE(late.ok());
    if (r == 0) {
      CHECK_FALSE((*late)->done());
      REQUIRE(run(*rank.engine, kGlobalSet, sum_of("token", token)).ok());
    }
    REQUIRE(rank.engine->wait(*late, {}).ok());
    CHECK(values[0] == 2.0F);
  });
}

TEST_CASE("Engine: operations that submitters help with end though nobody waits") {
  constexpr int kRanks = 4;
  EngineJob job(kRanks);
  run_ranks(kRanks, [&](int r) {
    EngineRank rank(job, r);
    for (int i = 0; i < 1000; ++i) {
      std::vector<float> values = {1.0F};
      auto operation =
          rank.engine->submit(kGlobalSet, helped(values, std::chrono::microseconds(100)));
      REQUIRE(operation.ok());
      await(*operation);
      REQUIRE(values[0] == kRanks);
    }
  });
}

TEST_CASE("Engine: it is destroyed only once a helping submitter has left it") {
  for (int round = 0; round < 50; ++round) {
    EngineJob job(1);
    auto rank = std::make_unique<EngineRank>(job, 0);
    std::thread::id ran{};
    rank->engine->add_set(1, {0}, std::make_unique<NotingExecutor>(ran));
    std::promise<void> finished;
    std::vector<float> values(4);
    std::thread submitter([&] {
      Submission submission = helped(values, std::chrono::seconds(1));
      submission.on_done = [&](Operation&) { finished.set_value(); };
      (void)rank->engine->submit(1, std::move(submission));
    });
    finished.get_future().wait();
    rank.reset();
    submitter.join();
  }
}

TEST_CASE("Engine: an operation that was helped in vain still meets its stall limit") {
  EngineJob job(2);
  std::array<Background, 2> backgrounds;
  auto place = std::make_shared<test::MeetingPlace>(2);
  std::atomic<bool> ended = false;
  run_ranks(2, [&](int r) {
    EngineRank rank(job, watched(job, r, backgrounds[static_cast<std::size_t>(r)]));
    rank.engine->add_set(1, {0, 1}, std::make_unique<test::ThreadExecutor>(place),
                         std::chrono::milliseconds(100));
    std::vector<float> values = {1.0F};
    std::vector<float> token = {0.0F};
    REQUIRE(run(*rank.engine, kGlobalSet, sum_of("token", token)).ok());
    if (r == 0) {
      while (!backgrounds[0].asleep) std::this_thread::yield();
      auto operation = rank.engine->submit(1, helped(values, std::chrono::microseconds(100)));
      REQUIRE(operation.ok());
      await(*operation);
      CHECK((*operation)->status().code() == Code::kStalled);
      ended = true;
    }
    while (!ended) std::this_thread::yield();  // nothing else wakes rank 0's background thread
  });
}

TEST_CASE("Engine: a helper that comes as the background thread goes to sleep is not left alone") {
  EngineJob job(1);
  Background background;
  std::vector<float> first = {1.0F};
  std::vector<float> second = {1.0F};
  std::promise<Result<OperationPtr>> submitted;
  Engine* engine = nullptr;
  background.before_sleep = [&] {
    std::thread([&] {
      submitted.set_value(
          engine->submit(kGlobalSet, helped(second, std::chrono::microseconds(100))));
    }).join();
  };
  EngineRank rank(job, watched(job, 0, background));
  engine = rank.engine.get();
  while (!background.asleep) std::this_thread::yield();
  background.armed = true;
  auto waking = rank.engine->submit(kGlobalSet, sum_of("waking", first));
  REQUIRE(waking.ok());
  const auto operation = submitted.get_future().get();
  REQUIRE(operation.ok());
  await(*operation);
  CHECK((*operation)->status().ok());
}

}  // namespace ronde
