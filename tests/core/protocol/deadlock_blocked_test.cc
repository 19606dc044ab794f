// Ranks that stand still in some operations: which of them never end.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <map>
#include <memory>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

/// Submits these, and stands still until they have ended.
BlockedFlag declare_blocked_in(TestJob& job, int rank, const std::vector<std::string>& names,
                               std::uint64_t first_ticket = 1) {
  auto blocked = std::make_shared<std::atomic<bool>>(true);
  std::vector<std::uint64_t> tickets;
  for (const std::string& name : names) {
    tickets.push_back(first_ticket + tickets.size());
    REQUIRE(job.at(rank).submit(allreduce(name), tickets.back(), at_ms(0)).ok());
  }
  job.at(rank).declare_blocked(tickets, blocked, at_ms(600));
  return blocked;
}

/// Status codes of all that came out on a rank, by ticket.
std::map<std::uint64_t, Code> ended(TestJob& job, int rank) {
  std::map<std::uint64_t, Code> codes;
  for (const Agreed& item : job.take(rank)) {
    if (item.ticket != 0) codes[item.ticket] = item.status.code();
  }
  return codes;
}

}  // namespace

TEST_CASE("Deadlock: ranks that stand still in operations of different names all fail at once") {
  for (const int per_host : {64, 1, 2}) {
    for (const int size : {2, 3, 5}) {
      TestJob job(size, per_host);
      for (int rank = 0; rank < size; ++rank) {
        declare_blocked_in(job, rank, {fmt::format("a{}", rank), fmt::format("b{}", rank), "same"});
      }
      job.deliver(at_ms(600));
      const std::map<std::uint64_t, Code> expected = {
          {1, Code::kMismatch}, {2, Code::kMismatch}, {3, Code::kOk}};
      for (int rank = 0; rank < size; ++rank) CHECK(ended(job, rank) == expected);
      CHECK(job.refused() == 0);
    }
  }
}

TEST_CASE(
    "Deadlock: what a rank has long stood still in fails together with what closes the cycle") {
  for (const int size : {2, 4}) {
    TestJob job(size, 1);
    for (int rank = 0; rank < size; ++rank) {
      declare_blocked_in(job, rank, {fmt::format("a{}", rank), fmt::format("b{}", rank)});
      job.deliver(at_ms(600));
      if (rank == 0) CHECK(ended(job, 0).empty());
    }
    const std::map<std::uint64_t, Code> expected = {{1, Code::kMismatch}, {2, Code::kMismatch}};
    for (const int rank : {0, 1}) CHECK(ended(job, rank) == expected);
  }
}

TEST_CASE("Deadlock: who is late to stand still does not break what the others have gone on to") {
  for (const int size : {3, 4}) {
    TestJob job(size, 1);
    const int late = size - 1;
    REQUIRE(job.at(late).submit(allreduce("late's"), 1, at_ms(0)).ok());
    for (int rank = 0; rank < late; ++rank) {
      declare_blocked_in(job, rank, {fmt::format("a{}", rank)});
    }
    job.deliver(at_ms(600));
    for (int rank = 0; rank < late; ++rank) {
      CHECK(ended(job, rank) == std::map<std::uint64_t, Code>{{1, Code::kMismatch}});
      REQUIRE(job.at(rank).submit(allreduce("after"), 2, at_ms(700)).ok());
      job.at(rank).declare_blocked(std::vector<std::uint64_t>{2},
                                   std::make_shared<const std::atomic<bool>>(true), at_ms(1200));
    }
    job.deliver(at_ms(1200));
    job.at(late).declare_blocked(std::vector<std::uint64_t>{1},
                                 std::make_shared<const std::atomic<bool>>(true), at_ms(1300));
    job.deliver(at_ms(1300));
    CHECK(ended(job, late) == std::map<std::uint64_t, Code>{{1, Code::kMismatch}});
    for (int rank = 0; rank < late; ++rank) CHECK(ended(job, rank).empty());
    REQUIRE(job.at(late).submit(allreduce("after"), 2, at_ms(1400)).ok());
    job.deliver(at_ms(1400));
    for (int rank = 0; rank < size; ++rank) {
      CHECK(ended(job, rank) == std::map<std::uint64_t, Code>{{2, Code::kOk}});
    }
  }
}

TEST_CASE("Deadlock: three ranks in a ring, of which each lacks what the next waits in") {
  TestJob job(3, 1);
  std::vector<BlockedFlag> kept;
  kept.reserve(3);
  for (int rank = 0; rank < 3; ++rank) {
    REQUIRE(job.at(rank).submit(allreduce(fmt::format("w{}", (rank + 1) % 3)), 9, at_ms(0)).ok());
  }
  for (int rank = 0; rank < 3; ++rank) {
    kept.push_back(declare_blocked_in(job, rank, {fmt::format("w{}", rank)}));
  }
  job.deliver(at_ms(600));
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(ended(job, rank) ==
          std::map<std::uint64_t, Code>{{1, Code::kMismatch}, {9, Code::kMismatch}});
  }
}

TEST_CASE("Deadlock: standing still breaks nothing that another rank may still submit") {
  TestJob job(3, 1);
  const BlockedFlag first = declare_blocked_in(job, 0, {"a"});
  const BlockedFlag second = declare_blocked_in(job, 1, {"a"});
  REQUIRE(job.at(2).submit(allreduce("other"), 1, at_ms(0)).ok());
  job.deliver(at_ms(600));
  for (int s = 1; s < 59; ++s) pass_to(job, at_ms(s * 1000));
  for (int rank = 0; rank < 3; ++rank) CHECK(ended(job, rank).empty());
  // Rank 0 has submitted what the second waits in: that is no cycle, though each lacks somebody.
  TestJob pair(3, 1);
  REQUIRE(pair.at(0).submit(allreduce("b"), 7, at_ms(0)).ok());
  const BlockedFlag third = declare_blocked_in(pair, 0, {"a"});
  const BlockedFlag fourth = declare_blocked_in(pair, 1, {"b"});
  pair.deliver(at_ms(600));
  for (int s = 1; s < 59; ++s) pass_to(pair, at_ms(s * 1000));
  for (int rank = 0; rank < 3; ++rank) CHECK(ended(pair, rank).empty());
}

TEST_CASE("Deadlock: who has stopped standing still may submit") {
  TestJob job(2);
  auto mine = std::make_shared<std::atomic<bool>>(false);
  REQUIRE(job.at(0).submit(allreduce("a"), 1, at_ms(0)).ok());
  job.at(0).declare_blocked(std::vector<std::uint64_t>{1}, mine, at_ms(600));
  const BlockedFlag other = declare_blocked_in(job, 1, {"b"});
  job.deliver(at_ms(600));
  for (int rank = 0; rank < 2; ++rank) CHECK(ended(job, rank).empty());
}

}  // namespace ronde
