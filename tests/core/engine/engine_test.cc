// The engine with real threads: ranks of one process over the local channel.
#include "core/engine/engine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include "core/base/bytes.h"
#include "tests/core/engine/engine_job.h"
#include "tests/core/engine/thread_executor.h"
#include "tests/support/local/factory.h"
#include "tests/support/local/hub.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

using test::EngineJob;
using test::EngineRank;
using test::MeetingPlace;
using test::run;
using test::run_ranks;
using test::sum_of;
using test::ThreadExecutor;

std::string name_of(int i) { return "t" + std::to_string(i); }

}  // namespace

TEST_CASE("Engine: blocking sums are right, again and again, at 1 to 5 ranks") {
  for (const int size : {1, 2, 3, 5}) {
    EngineJob job(size);
    run_ranks(size, [&](int r) {
      EngineRank rank(job, r);
      for (int i = 0; i < 50; ++i) {
        std::vector<float> values = {static_cast<float>(r + i), 1.0F};
        REQUIRE(run(*rank.engine, kGlobalSet, sum_of("w", values)).ok());
        CHECK(values[0] == static_cast<float>(size * i + size * (size - 1) / 2));
        CHECK(values[1] == static_cast<float>(size));
      }
    });
  }
}

TEST_CASE("Engine: small sums between hosts come with the agreement, and no bundle moves") {
  for (const int size : {2, 3, 5}) {
    EngineJob job(size, test::one_host_each(size));
    job.payload_bytes = 1024;
    run_ranks(size, [&](int r) {
      EngineRank rank(job, r);
      for (int i = 0; i < 50; ++i) {
        std::vector<float> values = {static_cast<float>(r + i), 1.0F};
        std::vector<float> large(300, 1.0F);
        REQUIRE(run(*rank.engine, kGlobalSet, sum_of("w", values)).ok());
        CHECK(values[0] == static_cast<float>(size * i + size * (size - 1) / 2));
        CHECK(values[1] == static_cast<float>(size));
        if (i % 10 != 0) continue;
        REQUIRE(run(*rank.engine, kGlobalSet, sum_of("large", large)).ok());
        CHECK(large == std::vector<float>(300, static_cast<float>(size)));
      }
      CHECK(rank.engine->meter().payloads.get() == 50);
      CHECK(rank.engine->meter().bundles.get() == 55);
    });
  }
}

TEST_CASE("Engine: tensors submitted in another order on each rank all arrive") {
  constexpr int kRanks = 4;
  constexpr int kTensors = 40;
  EngineJob job(kRanks, {0, 0, 1, 1});
  job.payload_bytes = 80;  // of five tensors: the others move as usual
  run_ranks(kRanks, [&](int r) {
    EngineRank rank(job, r);
    std::mt19937 random(static_cast<unsigned>(r));
    for (int step = 0; step < 3; ++step) {
      std::vector<std::vector<float>> data;
      for (int i = 0; i < kTensors; ++i) data.push_back({static_cast<float>(r * i)});
      std::vector<int> order(kTensors);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      std::vector<OperationPtr> operations;
      for (const int i : order) {
        auto submitted =
            rank.engine->submit(kGlobalSet, sum_of(name_of(i), data[static_cast<std::size_t>(i)]));
        REQUIRE(submitted.ok());
        operations.push_back(*submitted);
      }
      for (const OperationPtr& operation : operations) {
        REQUIRE(rank.engine->wait(operation, {}).ok());
      }
      for (int i = 0; i < kTensors; ++i) {
        CHECK(data[static_cast<std::size_t>(i)][0] == static_cast<float>(6 * i));
      }
    }
  });
}

TEST_CASE("Engine: asynchronous work progresses while nobody waits") {
  EngineJob job(2);
  run_ranks(2, [&](int r) {
    EngineRank rank(job, r);
    std::vector<float> values = {1.0F};
    auto submitted = rank.engine->submit(kGlobalSet, sum_of("w", values));
    REQUIRE(submitted.ok());
    while (!(*submitted)->done()) std::this_thread::yield();
    CHECK(values[0] == 2.0F);
  });
}

TEST_CASE("Engine: bundles over the inline limit run in the queue's thread, in order") {
  EngineJob job(2);
  run_ranks(2, [&](int r) {
    EngineRank rank(job, r, 8);
    std::vector<float> large(1000, 1.0F);
    std::vector<float> small = {1.0F};
    auto first = rank.engine->submit(kGlobalSet, sum_of("large", large));
    auto second = rank.engine->submit(kGlobalSet, sum_of("small", small));
    REQUIRE(rank.engine->wait(*first, {}).ok());
    REQUIRE(rank.engine->wait(*second, {}).ok());
    CHECK(large[999] == 2.0F);
    CHECK(small[0] == 2.0F);
  });
}

TEST_CASE("Engine: sets in a cycle, submitted in different orders, finish") {
  EngineJob job(3);
  const std::vector<std::vector<int>> sets = {{0, 1}, {1, 2}, {0, 2}};
  std::vector<std::shared_ptr<MeetingPlace>> places;
  for (int i = 0; i < 3; ++i) places.push_back(std::make_shared<MeetingPlace>(2));
  run_ranks(3, [&](int r) {
    EngineRank rank(job, r);
    std::vector<int> mine;
    for (int s = 0; s < 3; ++s) {
      const auto index = static_cast<std::size_t>(s);
      if (std::find(sets[index].begin(), sets[index].end(), r) == sets[index].end()) continue;
      mine.push_back(s);
      rank.engine->add_set(s + 1, sets[index], std::make_unique<ThreadExecutor>(places[index]));
    }
    if (r != 0) std::swap(mine[0], mine[1]);
    for (int step = 0; step < 50; ++step) {
      std::vector<float> a = {1.0F};
      std::vector<float> b = {1.0F};
      auto first = rank.engine->submit(mine[0] + 1, sum_of("w", a));
      auto second = rank.engine->submit(mine[1] + 1, sum_of("w", b));
      REQUIRE(rank.engine->wait(*first, {}).ok());
      REQUIRE(rank.engine->wait(*second, {}).ok());
      CHECK(a[0] + b[0] == 4.0F);
    }
  });
}

TEST_CASE("Engine: several threads of a rank may wait at once") {
  EngineJob job(2);
  run_ranks(2, [&](int r) {
    EngineRank rank(job, r);
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 20; ++i) {
          std::vector<float> values = {1.0F};
          const Status status =
              run(*rank.engine, kGlobalSet, sum_of(name_of(t) + "." + name_of(i), values));
          if (status.ok() && values[0] == 2.0F) ++good;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(good == 80);
  });
}

TEST_CASE("Engine: a mismatch is the same error on all ranks and the job goes on") {
  EngineJob job(3);
  std::vector<std::string> messages(3);
  run_ranks(3, [&](int r) {
    EngineRank rank(job, r);
    std::vector<float> values(r == 1 ? 3 : 2, 1.0F);
    const Status status = run(*rank.engine, kGlobalSet, sum_of("w", values));
    CHECK(status.code() == Code::kMismatch);
    messages[static_cast<std::size_t>(r)] = status.message();
    std::vector<float> good = {1.0F};
    CHECK(run(*rank.engine, kGlobalSet, sum_of("w2", good)).ok());
    CHECK(good[0] == 3.0F);
  });
  CHECK(messages[0] == messages[1]);
  CHECK(messages[0] == messages[2]);
  CHECK(messages[0].find("[3]") != std::string::npos);
  CHECK(messages[0].find("[2]") != std::string::npos);
}

TEST_CASE("Engine: a rank that has joined takes part with zeros until all have joined") {
  EngineJob job(3);
  run_ranks(3, [&](int r) {
    EngineRank rank(job, r);
    for (int i = 0; i < r; ++i) {  // rank r has r batches
      std::vector<float> values = {1.0F};
      REQUIRE(run(*rank.engine, kGlobalSet, sum_of(name_of(i), values)).ok());
      CHECK(values[0] == static_cast<float>(2 - i));
    }
    Submission join;
    join.request.kind = Collective::kJoin;
    auto joined = rank.engine->submit(kGlobalSet, std::move(join));
    REQUIRE(rank.engine->wait(*joined, {}).ok());
    CHECK((*joined)->last_joined() == 2);
  });
}

TEST_CASE("Engine: a death fails pending and later operations, naming the rank") {
  EngineJob job(3);
  run_ranks(3, [&](int r) {
    EngineRank rank(job, r);
    std::vector<float> values = {1.0F};
    REQUIRE(run(*rank.engine, kGlobalSet, sum_of("before", values)).ok());
    if (r == 2) {
      job.hub->kill(2);
      return;
    }
    const Status pending = run(*rank.engine, kGlobalSet, sum_of("w", values));
    CHECK(pending.code() == Code::kRankFailure);
    CHECK(pending.failed_rank()->rank == 2);
    CHECK(run(*rank.engine, kGlobalSet, sum_of("later", values)).code() == Code::kRankFailure);
  });
}

TEST_CASE("Engine: who leaves early fails what the others still wait for, naming it") {
  EngineJob job(2);
  run_ranks(2, [&](int r) {
    EngineRank rank(job, r);
    std::vector<float> values = {1.0F};
    REQUIRE(run(*rank.engine, kGlobalSet, sum_of("both", values)).ok());
    if (r == 1) return;
    const Status status = run(*rank.engine, kGlobalSet, sum_of("alone", values));
    CHECK(status.code() == Code::kRankFailure);
    CHECK(status.message().find("rank 1 has left") != std::string::npos);
  });
}

TEST_CASE("Engine: a failure on one rank reaches all ranks") {
  EngineJob job(3);
  run_ranks(3, [&](int r) {
    EngineRank rank(job, r);
    std::vector<float> values = {1.0F};
    REQUIRE(run(*rank.engine, kGlobalSet, sum_of("before", values)).ok());
    if (r == 1) rank.engine->fail(Status(Code::kUnavailable, "the data plane broke"));
    const Status status = run(*rank.engine, kGlobalSet, sum_of("w", values));
    CHECK(status.code() == Code::kUnavailable);
    CHECK(status.message() == "the data plane broke");
  });
}

TEST_CASE("Engine: messages and exchanges go between any two ranks") {
  EngineJob job(3);
  run_ranks(3, [&](int r) {
    EngineRank rank(job, r);
    const std::string text = "from " + std::to_string(r);
    std::string buffer(6, ' ');
    Message message;
    auto sent = rank.engine->send((r + 1) % 3, 5, as_bytes(text));
    auto received = rank.engine->recv(
        kAnySource, 5, {reinterpret_cast<std::byte*>(buffer.data()), buffer.size()}, &message);
    REQUIRE(rank.engine->wait(*sent, {}).ok());
    REQUIRE(rank.engine->wait(*received, {}).ok());
    CHECK(buffer == "from " + std::to_string((r + 2) % 3));
    CHECK(message.source == (r + 2) % 3);
    const auto values = rank.engine->exchange(99, 0, job.everyone, text, {});
    INFO(values.status().to_string());
    REQUIRE(values.ok());
    CHECK((*values)[2] == "from 2");
  });
}

TEST_CASE("Engine: an exchange whose partner never comes names it") {
  EngineJob job(2);
  run_ranks(2, [&](int r) {
    EngineRank rank(job, r);
    if (r == 0) {
      WaitOptions options;
      options.deadline = now() + std::chrono::milliseconds(30);
      const auto values = rank.engine->exchange(7, 0, job.everyone, "", options);
      CHECK(values.status().code() == Code::kTimeout);
      CHECK(values.status().message().find("rank 1") != std::string::npos);
    }
    std::vector<float> token = {0.0F};
    REQUIRE(run(*rank.engine, kGlobalSet, sum_of("token", token)).ok());
  });
}

}  // namespace ronde
