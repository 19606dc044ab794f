// Changes of process sets, with ranks that are threads.
#include "bindings/runtime/groups/process_sets.h"

#include <doctest/doctest.h>

#include <map>
#include <mutex>

#include "tests/core/engine/engine_job.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

using test::EngineJob;
using test::EngineRank;
using test::MeetingPlace;
using test::run_ranks;
using test::sum_of;
using test::ThreadExecutor;

/// State that the executors of all sets share, by key.
struct Places {
  std::shared_ptr<MeetingPlace> of(std::uint64_t key, std::size_t size) {
    const std::lock_guard lock(mutex);
    auto& place = places[key];
    if (!place) place = std::make_shared<MeetingPlace>(static_cast<int>(size));
    return place;
  }
  std::mutex mutex;
  std::map<std::uint64_t, std::shared_ptr<MeetingPlace>> places;
};

/// One rank with what changes its process sets. Opening fails where `fails` says so.
struct Rank {
  Rank(const EngineJob& job, Places& places, int number)
      : engine(job, number),
        table(job.size),
        sets(state, table, keys, *engine.engine,
             [this, &places](std::uint64_t key, const std::vector<int>& ranks, const WaitOptions&,
                             const NewSet& set) -> Result<std::unique_ptr<Executor>> {
               opened = set.name;
               if (fails) return Status(Code::kUnavailable, "no way");
               return std::unique_ptr<Executor>(
                   std::make_unique<ThreadExecutor>(places.of(key, ranks.size())));
             }) {}
  Status sum(SetId set, std::vector<float>& values) {
    return test::run(*engine.engine, set, sum_of("w", values));
  }

  EngineRank engine;
  RuntimeState state;
  ProcessSetTable table;
  GroupKeys keys;
  bool fails = false;
  std::string opened;  // the name of the last set
  ProcessSets sets;
};

/// Runs `body` as every rank of a job of three.
void run_job(const std::function<void(Rank&, int)>& body) {
  const EngineJob job(3);
  Places places;
  run_ranks(3, [&](int number) {
    Rank rank(job, places, number);
    body(rank, number);
  });
}

}  // namespace

TEST_CASE("ProcessSets: a public set is known to all, used by its members, and removed") {
  run_job([](Rank& rank, int number) {
    const auto set = rank.sets.add({2, 0});
    REQUIRE(set.ok());
    CHECK(rank.sets.ranks(*set).value() == std::vector<int>{0, 2});
    std::vector<float> values = {1.0F};
    const Status status = rank.sum(*set, values);
    CHECK(status.code() == (number == 1 ? Code::kInvalidArgument : Code::kOk));
    CHECK(values[0] == (number == 1 ? 1.0F : 2.0F));
    CHECK(rank.sets.add({0, 2}).status().code() == Code::kInvalidArgument);
    CHECK(rank.sets.remove(*set).ok());
    CHECK(rank.sets.remove(*set).code() == Code::kInvalidArgument);
    CHECK(rank.sets.remove(kGlobalSet).code() == Code::kInvalidArgument);
    CHECK(rank.sets.ids() == std::vector<SetId>{kGlobalSet});
  });
}

TEST_CASE("ProcessSets: timelines have the numbers of public sets, the ranks of private ones") {
  run_job([](Rank& rank, int number) {
    const SetId first = rank.sets.add({0, 1}).value();
    if (number < 2) CHECK(rank.opened == "process set 1");
    CHECK(rank.sets.remove(first).ok());
    rank.opened.clear();
    CHECK(rank.sets.add({0, 2}).value() != first);
    CHECK(rank.opened == (number == 1 ? "" : "process set 1"));  // the number is used again
    const SetId open = rank.sets.open({0, 1, 2}, {.name = "a"}).value();
    CHECK(rank.opened == "group 1 (ranks 0, 1, 2)");
    CHECK(rank.sets.open({0, 1, 2}, {.name = "b"}).value() != open);
    CHECK(rank.opened == "group 2 (ranks 0, 1, 2)");
  });
}

TEST_CASE("ProcessSets: removing a set aborts what its ranks have not agreed on, there alone") {
  run_job([](Rank& rank, int number) {
    const SetId gone = rank.sets.add({0, 1}).value();
    std::vector<float> lost = {1.0F};
    Result<OperationPtr> pending = OperationPtr();
    if (number < 2) {  // each submits an operation that the other one does not know
      Submission submission = sum_of(number == 0 ? "a" : "b", lost);
      pending = rank.engine.engine->submit(gone, std::move(submission));
      REQUIRE(pending.ok());
    }
    CHECK(rank.sets.remove(gone).ok());
    if (number < 2) {
      const Status status = rank.engine.engine->wait(*pending, {});
      CHECK(status.code() == Code::kAborted);
      CHECK(status.message().find("was removed") != std::string::npos);
      CHECK(rank.engine.engine->submit(gone, sum_of("a", lost)).status().code() ==
            Code::kInvalidArgument);
    }
    CHECK(rank.engine.engine->left_behind().ok());  // no rank is gone
    const SetId next = rank.sets.add({0, 1}).value();
    CHECK(next != gone);
    CHECK(rank.sets.number(next).value() == 1);
    std::vector<float> values = {1.0F};
    if (number < 2) CHECK(rank.sum(next, values).ok());
    CHECK(values[0] == (number < 2 ? 2.0F : 1.0F));
  });
}

TEST_CASE("ProcessSets: a rank that does not come to remove a set leaves it as it was") {
  run_job([](Rank& rank, int number) {
    const SetId set = rank.sets.add({0, 1}).value();
    if (number != 2) {
      WaitOptions soon;
      soon.deadline = now() + std::chrono::milliseconds(20);
      CHECK(rank.sets.remove(set, soon).code() == Code::kTimeout);
      CHECK(rank.sets.number(set).value() == 1);
    }
    std::vector<float> values = {1.0F};
    if (number != 2) CHECK(rank.sum(set, values).ok());
    CHECK(rank.sum(kGlobalSet, values).ok());  // none leaves the job before
  });
}

TEST_CASE("ProcessSets: ranks that ask for different sets get the same error and go on") {
  run_job([](Rank& rank, int number) {
    CHECK(rank.sets.add({number}).status().code() == Code::kMismatch);
    CHECK(rank.sets.add({0, 1}).ok());
  });
}

TEST_CASE("ProcessSets: a set that one member cannot open is no set, and its id is used up") {
  run_job([](Rank& rank, int number) {
    rank.fails = number == 1;
    const auto set = rank.sets.add({0, 1});
    CHECK(set.status().code() == Code::kUnavailable);
    CHECK(set.status().message().find("set of ranks 0, 1 could not be") != std::string::npos);
    rank.fails = false;
    CHECK(rank.sets.add({0, 1}).value() == 2);
  });
}

TEST_CASE("ProcessSets: a private set is its members' own, and is left one by one") {
  run_job([](Rank& rank, int number) {
    if (number == 1) return;
    const auto set = rank.sets.open({2, 0}, {.name = "pair"});
    REQUIRE(set.ok());
    CHECK(*set >= kFirstPrivateSet);
    CHECK(rank.sets.ids() == std::vector<SetId>{kGlobalSet});
    std::vector<float> values = {1.0F};
    CHECK(rank.sum(*set, values).ok());
    CHECK(values[0] == 2.0F);
    CHECK(rank.sets.open({2, 0}, {.name = number == 0 ? "a" : "b"}).status().code() ==
          Code::kMismatch);
    CHECK(rank.sets.open({1}, {}).status().code() == Code::kInvalidArgument);
    CHECK(rank.sets.close(kGlobalSet).code() == Code::kInvalidArgument);
    CHECK(rank.sets.close(*set).ok());
    CHECK(rank.sets.close(*set).code() == Code::kInvalidArgument);
  });
}

TEST_CASE("ProcessSets: nothing changes after the end of the runtime") {
  const EngineJob job(1);
  Places places;
  Rank rank(job, places, 0);
  REQUIRE(rank.state.end());
  CHECK(rank.sets.add({0}).status().code() == Code::kNotInitialized);
  CHECK(rank.sets.remove(1).code() == Code::kNotInitialized);
  CHECK(rank.sets.open({0}, {}).status().code() == Code::kNotInitialized);
  CHECK(rank.sets.close(kFirstPrivateSet).code() == Code::kNotInitialized);
  CHECK(rank.sets.ids() == std::vector<SetId>{kGlobalSet});
}

}  // namespace ronde
