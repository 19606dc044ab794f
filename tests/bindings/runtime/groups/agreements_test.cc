#include "bindings/runtime/groups/agreements.h"

#include <doctest/doctest.h>

#include <map>
#include <mutex>
#include <set>

#include "tests/support/local_exchange.h"
#include "tests/support/run_ranks.h"

namespace ronde {

TEST_CASE("GroupKeys: members that open the same groups in the same order use the same keys") {
  GroupKeys mine;
  GroupKeys theirs;
  (void)theirs.next({1, 2});  // a group without this rank
  for (int i = 0; i < 3; ++i) CHECK(mine.next({0, 1}) == theirs.next({0, 1}));
}

TEST_CASE("GroupKeys: groups, agreements, devices and the job's exchanges never share a key") {
  GroupKeys keys;
  std::set<std::uint64_t> all = {kSettingsKey};
  std::size_t count = 1;
  const auto add = [&](std::uint64_t key) {
    all.insert(key);
    ++count;
  };
  for (std::uint64_t i = 0; i < 4; ++i) {
    add(i);  // a public process set
    add(device_key(i));
    add(job_key(i));
    const std::uint64_t group = keys.next({0, 1});
    add(group);
    add(agreement_key(group));
    add(device_key(group));
  }
  CHECK(all.size() == count);
}

namespace {

using test::ExchangeRounds;
using test::LocalExchange;
using test::run_ranks;

constexpr int kJobSize = 3;
const std::vector<int> kEveryone = {0, 1, 2};

/// The exchanges of a job whose ranks are threads, by key.
class Exchanges {
 public:
  MakeExchange maker(int rank) {
    return [this, rank](std::uint64_t key, const std::vector<int>& ranks, const WaitOptions&) {
      const std::lock_guard lock(mutex_);
      auto& rounds = rounds_[key];
      if (!rounds) rounds = std::make_shared<ExchangeRounds>(static_cast<int>(ranks.size()));
      return std::make_unique<LocalExchange>(rounds, rank);
    };
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<ExchangeRounds>> rounds_;
};

}  // namespace

TEST_CASE("Agreements: ranks that ask for the same change agree, others are named") {
  Exchanges exchanges;
  run_ranks(kJobSize, [&](int rank) {
    Agreements agreements(exchanges.maker(rank), kEveryone);
    CHECK(agreements.agree("add ranks 0, 1", {}).ok());
    const Status status = agreements.agree(rank == 2 ? "remove set 1" : "remove set 2", {});
    CHECK(status.code() == Code::kMismatch);
    CHECK(status.message() == "process sets: rank 0 asked to remove set 2, rank 2 to remove set 1");
  });
}

TEST_CASE("Agreements: the first error is everybody's, and keeps its own text where it happened") {
  Exchanges exchanges;
  run_ranks(kJobSize, [&](int rank) {
    Agreements agreements(exchanges.maker(rank), kEveryone);
    CHECK(agreements.share_outcome({}, {}).ok());
    const Status mine = rank == 1 ? Status(Code::kResourceExhausted, "no memory") : Status();
    const Status all = agreements.share_outcome(mine, {});
    CHECK(all.code() == (rank == 1 ? Code::kResourceExhausted : Code::kUnavailable));
    CHECK(all.message() == (rank == 1 ? "no memory" : "rank 1: no memory"));
  });
}

TEST_CASE("Agreements: members of a private set take the largest id that is free on all") {
  const auto rounds = std::make_shared<ExchangeRounds>(2);
  const std::vector<int> ranks = {4, 7};
  run_ranks(2, [&](int rank) {
    LocalExchange exchange(rounds, rank);
    CHECK(agree_on_id(exchange, ranks, "tp", rank == 0 ? 10 : 12).value() == 12);
    const auto id = agree_on_id(exchange, ranks, rank == 0 ? "tp" : "pp", 13);
    CHECK(id.status().code() == Code::kMismatch);
    CHECK(id.status().message() == "rank 4 opens the set \"tp\", rank 7 the set \"pp\"");
  });
}

}  // namespace ronde
