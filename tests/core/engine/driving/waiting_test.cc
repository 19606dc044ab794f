// How waits end: by deadlines and interrupts, in the caller's thread or the queue's.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
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
using test::ForwardingChannel;
using test::NotingExecutor;
using test::run;
using test::run_ranks;
using test::sum_of;

/// Work that never ends by itself.
class StuckExecutor final : public Executor {
 public:
  Status execute(const Bundle&, const AbortToken& abort) override {
    while (!abort.poll()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return abort.status();
  }
};

/// Work that ends when the test says so.
class HeldExecutor final : public Executor {
 public:
  explicit HeldExecutor(std::atomic<bool>& held) : held_(held) {}
  Status execute(const Bundle&, const AbortToken&) override {
    while (held_) std::this_thread::yield();
    return {};
  }

 private:
  std::atomic<bool>& held_;
};

/// Keeps the background thread asleep. Threads: any.
struct BackgroundHold {
  std::atomic<bool> asleep = false;
  std::atomic<bool> released = false;
  void release() {
    released = true;
    released.notify_all();
  }
};

/// Another channel, in which the background thread sleeps until it is released.
class HoldingChannel final : public ForwardingChannel {
 public:
  HoldingChannel(std::unique_ptr<ControlChannel> inner, BackgroundHold& hold)
      : ForwardingChannel(std::move(inner)), hold_(hold) {}
  void wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept override {
    if (who == Sleeper::kBackground) {
      hold_.asleep = true;
      hold_.asleep.notify_all();
      hold_.released.wait(false);
    }
    ForwardingChannel::wait(who, ticket, deadline);
  }

 private:
  BackgroundHold& hold_;
};

/// A job of one rank in which only callers drive the engine until the hold is released.
struct CallersJob {
  explicit CallersJob(Duration far_deadline = std::chrono::seconds(10))
      : rank(job, std::make_unique<HoldingChannel>(create_local_channel(job.hub, 0), hold), 1 << 16,
             far_deadline) {
    hold.asleep.wait(false);
  }
  ~CallersJob() { hold.release(); }
  CallersJob(const CallersJob&) = delete;
  CallersJob& operator=(const CallersJob&) = delete;

  /// Submits to a queue of its own that runs by `executor` what its caller will wait for.
  Result<OperationPtr> submit(std::unique_ptr<Executor> executor, std::vector<float>& values) {
    rank.engine->add_set(1, {0}, std::move(executor));
    Submission submission = sum_of("stuck", values);
    submission.caller_waits = true;
    return rank.engine->submit(1, std::move(submission));
  }

  EngineJob job{1};
  BackgroundHold hold;
  EngineRank rank;
};

}  // namespace

TEST_CASE("Engine: a wait ends at its deadline and by its interrupt check, the operation goes on") {
  EngineJob job(2);
  run_ranks(2, [&](int r) {
    EngineRank rank(job, r);
    std::vector<float> values = {1.0F};
    std::vector<float> token = {0.0F};
    if (r == 0) {
      auto submitted = rank.engine->submit(kGlobalSet, sum_of("w", values));
      WaitOptions deadline;
      deadline.deadline = now() + std::chrono::milliseconds(20);
      CHECK(rank.engine->wait(*submitted, deadline).code() == Code::kTimeout);
      WaitOptions interrupt;
      interrupt.interrupt = [] { return Status(Code::kInterrupted, "Ctrl-C"); };
      CHECK(rank.engine->wait(*submitted, interrupt).message() == "Ctrl-C");
      REQUIRE(run(*rank.engine, kGlobalSet, sum_of("token", token)).ok());
      CHECK(rank.engine->wait(*submitted, {}).ok());
      CHECK(values[0] == 2.0F);
    } else {
      REQUIRE(run(*rank.engine, kGlobalSet, sum_of("token", token)).ok());
      REQUIRE(run(*rank.engine, kGlobalSet, sum_of("w", values)).ok());
    }
  });
}

TEST_CASE("Engine: an interrupt that lands just before a wait ends it, and no other one") {
  EngineJob job(2);
  run_ranks(2, [&](int r) {
    EngineRank rank(job, r);
    std::vector<float> values = {1.0F};
    std::vector<float> token = {0.0F};
    if (r == 0) {
      auto submitted = rank.engine->submit(kGlobalSet, sum_of("w", values));
      rank.engine->interrupt();
      (void)rank.engine->describe_pending();  // a wait that is not for results
      WaitOptions options;
      options.deadline = now() + std::chrono::seconds(20);
      CHECK(rank.engine->wait(*submitted, options).code() == Code::kInterrupted);
      options.deadline = now() + std::chrono::milliseconds(20);
      CHECK(rank.engine->wait(*submitted, options).code() == Code::kTimeout);
      options.deadline = now() + std::chrono::seconds(20);
      REQUIRE(run(*rank.engine, kGlobalSet, sum_of("token", token)).ok());
      REQUIRE(rank.engine->wait(*submitted, {}).ok());
      rank.engine->interrupt();  // who then leaves does so in good order
      CHECK(rank.engine->leave_set(kGlobalSet, options).ok());
    } else {
      REQUIRE(run(*rank.engine, kGlobalSet, sum_of("token", token)).ok());
      REQUIRE(run(*rank.engine, kGlobalSet, sum_of("w", values)).ok());
    }
  });
}

TEST_CASE("Engine: a caller stuck in work that it does itself still hears of interrupts") {
  CallersJob job;
  Engine& engine = *job.rank.engine;
  std::vector<float> values(4);
  const auto operation = job.submit(std::make_unique<StuckExecutor>(), values);
  REQUIRE(operation.ok());
  WaitOptions options;
  options.interrupt = [] { return Status(Code::kInterrupted, "by the test"); };
  CHECK(engine.wait(*operation, options).code() == Code::kInterrupted);
  CHECK(engine.job_status().code() == Code::kInterrupted);
}

TEST_CASE("Engine: a caller stuck in work that it does itself hears of other ranks' failures") {
  EngineJob job(2);
  run_ranks(2, [&](int r) {
    EngineRank rank(job, r);
    std::thread::id ran{};
    std::unique_ptr<Executor> executor = std::make_unique<StuckExecutor>();
    if (r == 1) executor = std::make_unique<NotingExecutor>(ran);
    rank.engine->add_set(1, {0, 1}, std::move(executor));
    std::vector<float> values(4);
    Submission submission = sum_of("stuck", values);
    submission.caller_waits = true;
    const auto operation = rank.engine->submit(1, std::move(submission));
    REQUIRE(operation.ok());
    WaitOptions options;
    const TimePoint limit = now() + std::chrono::seconds(20);
    options.interrupt = [limit] {
      return now() < limit ? Status() : Status(Code::kInterrupted, "it has not heard");
    };
    const Status status = rank.engine->wait(*operation, options);
    if (r == 1) rank.engine->fail(Status(Code::kUnavailable, "the data plane broke"));
    CHECK((r == 1 || status.message() == "the data plane broke"));
  });
}

TEST_CASE("Engine: a caller with a deadline leaves stuck work to the queue's thread") {
  EngineJob job(1);
  EngineRank rank(job, 0);
  rank.engine->add_set(1, {0}, std::make_unique<StuckExecutor>());
  std::vector<float> values(4);
  const auto operation = rank.engine->submit(1, sum_of("stuck", values));
  REQUIRE(operation.ok());
  WaitOptions options;
  options.deadline = now() + std::chrono::milliseconds(30);
  CHECK(rank.engine->wait(*operation, options).code() == Code::kTimeout);
  CHECK(rank.engine->job_status().ok());
  rank.engine->fail(Status(Code::kAborted, "the end of the test"));
}

TEST_CASE("Engine: a caller whose deadline is far moves the data itself") {
  CallersJob job;
  std::thread::id ran{};
  std::vector<float> values(4);
  WaitOptions options;
  options.deadline = now() + std::chrono::minutes(1);
  const auto operation = job.submit(std::make_unique<NotingExecutor>(ran), values);
  REQUIRE(operation.ok());
  REQUIRE(job.rank.engine->wait(*operation, options).ok());
  CHECK(ran == std::this_thread::get_id());
}

TEST_CASE("Engine: operations go on after a caller that waited for another's driving has left") {
  CallersJob job;
  EngineRank& rank = job.rank;
  std::atomic<bool> held = true;
  std::vector<float> values(4);
  std::vector<float> others(4);
  const auto first = job.submit(std::make_unique<HeldExecutor>(held), values);
  Submission same_bundle = sum_of("other", others);
  same_bundle.caller_waits = true;
  const auto second = rank.engine->submit(1, std::move(same_bundle));
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  std::thread driver([&] { CHECK(rank.engine->wait(*first, {}).ok()); });
  const auto settle = std::chrono::milliseconds(30);  // what it is for then happens in most runs
  std::this_thread::sleep_for(settle);
  std::thread waiter([&] { CHECK(rank.engine->wait(*second, {}).ok()); });
  std::this_thread::sleep_for(settle);
  job.hold.release();
  rank.channel->wake(Sleeper::kBackground);  // it finds the engine driven, and waits too
  std::this_thread::sleep_for(settle);
  held = false;
  driver.join();
  waiter.join();
  const auto later = rank.engine->submit(1, sum_of("later", values));
  REQUIRE(later.ok());
  while (!(*later)->done()) std::this_thread::yield();
}

TEST_CASE("Engine: a far deadline that passes while the caller moves data ends the job") {
  CallersJob job(std::chrono::milliseconds(20));
  EngineRank& rank = job.rank;
  std::vector<float> values(4);
  const auto operation = job.submit(std::make_unique<StuckExecutor>(), values);
  REQUIRE(operation.ok());
  WaitOptions options;
  options.deadline = now() + std::chrono::milliseconds(100);
  CHECK(rank.engine->wait(*operation, options).code() == Code::kTimeout);
  CHECK(rank.engine->job_status().message().find("rank 0 came to the end of its wait") == 0);
}

}  // namespace ronde
