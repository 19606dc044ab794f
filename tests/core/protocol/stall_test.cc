// Operations that some ranks never submit: who is named, where, and when.
#include <doctest/doctest.h>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

using std::chrono::seconds;

TimePoint at_second(int second) { return TimePoint{} + seconds(second); }

/// Lets time pass on all ranks, each asked only when its deadline has come.
void pass_to(TestJob& job, int second) {
  for (int rank = 0; rank < job.size(); ++rank) {
    if (job.at(rank).next_deadline() <= at_second(second)) job.at(rank).on_time(at_second(second));
  }
  job.deliver(at_second(second));
}

MemberOptions limits(int warning, int error) {
  MemberOptions options;
  options.stall = {.warning = seconds(warning), .error = seconds(error)};
  return options;
}

}  // namespace

TEST_CASE("Stall watch: every rank is warned, naming the operation, the seconds and the missing") {
  for (const int per_host : {64, 1, 2}) {
    for (const bool warm : {false, true}) {
      TestJob job(4, per_host);
      for (int rank = 0; warm && rank < 4; ++rank) {
        REQUIRE(job.at(rank).submit(allreduce("w"), 1, at_second(0)).ok());
      }
      job.deliver();
      for (const int rank : {0, 2}) {
        REQUIRE(job.at(rank).submit(allreduce("w"), 2, at_second(10)).ok());
      }
      job.deliver(at_second(10));
      pass_to(job, 69);
      for (int rank = 0; rank < 4; ++rank) CHECK(job.warnings(rank).empty());
      pass_to(job, 70);
      for (int rank = 0; rank < 4; ++rank) {
        CHECK(job.warnings(rank) ==
              std::vector<std::string>{"allreduce \"w\" has waited 60 s for ranks 1, 3"});
      }
      pass_to(job, 129);
      CHECK(job.warnings(1).empty());
      pass_to(job, 130);
      CHECK(job.warnings(1) ==
            std::vector<std::string>{"allreduce \"w\" has waited 120 s for ranks 1, 3"});
      for (const int rank : {1, 3}) {
        REQUIRE(job.at(rank).submit(allreduce("w"), 2, at_second(131)).ok());
      }
      job.deliver(at_second(131));
      for (int rank = 0; rank < 4; ++rank) {
        CHECK(job.take(rank).back().status.ok());
        CHECK(job.at(rank).next_deadline() == kForever);
      }
      CHECK(job.refused() == 0);
    }
  }
}

TEST_CASE("Stall watch: one rank alone is enough to be warned about, wherever it is") {
  for (int alone = 0; alone < 7; ++alone) {
    TestJob job(7, 2);
    REQUIRE(job.at(alone).submit(request_for(Collective::kBarrier, ""), 2, at_second(0)).ok());
    job.deliver();
    pass_to(job, 60);
    const std::vector<std::string> warnings = job.warnings(6 - alone);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("barrier (unnamed, number 1) has waited 60 s for ranks") == 0);
    CHECK(std::count(warnings[0].begin(), warnings[0].end(), ',') == 1 + 5);
  }
}

TEST_CASE("Stall watch: nothing pending means no deadline, and none fires while all is well") {
  TestJob job(2);
  CHECK(job.at(0).next_deadline() == kForever);
  for (int second = 0; second < 300; second += 10) {
    for (int rank = 0; rank < 2; ++rank) {
      REQUIRE(job.at(rank).submit(allreduce("w"), 1, at_second(second)).ok());
      pass_to(job, second);
    }
    CHECK(job.take(0).size() == 1);
    CHECK(job.at(0).next_deadline() == kForever);
  }
  CHECK(job.warnings(0).empty());
}

TEST_CASE("Stall watch: ranks that have joined are not missing") {
  TestJob job(3);
  REQUIRE(job.at(2).join(1).ok());
  REQUIRE(job.at(0).submit(allreduce("w"), 2, at_second(0)).ok());
  job.deliver();
  pass_to(job, 60);
  CHECK(job.warnings(0) == std::vector<std::string>{"allreduce \"w\" has waited 60 s for rank 1"});
}

TEST_CASE("Stall watch: past the error limit all ranks fail, late ones when they submit") {
  for (const bool warm : {false, true}) {
    for (const char* name : {"w", ""}) {
      TestJob job(4, 2, limits(0, 20));
      for (int rank = 0; warm && rank < 4; ++rank) {
        REQUIRE(job.at(rank).submit(allreduce(name), 1, at_second(0)).ok());
      }
      job.deliver();
      for (int rank = 0; rank < 4; ++rank) job.take(rank);
      for (const int rank : {1, 2}) {
        REQUIRE(job.at(rank).submit(allreduce(name), 2, at_second(0)).ok());
      }
      job.deliver();
      pass_to(job, 19);
      CHECK(job.take(1).empty());
      pass_to(job, 20);
      Status status;
      for (int rank = 0; rank < 4; ++rank) {
        const std::vector<Agreed> items = job.take(rank);
        REQUIRE(items.size() == 1);
        CHECK(items[0].ticket == (rank == 1 || rank == 2 ? 2U : 0U));
        status = items[0].status;
        CHECK(status.code() == Code::kStalled);
        CHECK(status.message().find("has waited 20 s for ranks 0, 3; given up") !=
              std::string::npos);
      }
      for (const int rank : {0, 3}) {  // too late for that one
        CHECK(job.at(rank).submit(allreduce(name), 3, at_second(21)).message() == status.message());
      }
      for (int rank = 0; rank < 4; ++rank) {
        REQUIRE(job.at(rank).submit(allreduce(name), 4, at_second(22)).ok());
      }
      job.deliver(at_second(22));
      for (int rank = 0; rank < 4; ++rank) {
        const std::vector<Agreed> items = job.take(rank);
        REQUIRE(items.size() == 1);
        CHECK(items[0].ticket == 4);
        CHECK(items[0].status.ok());
      }
      CHECK(job.refused() == 0);
    }
  }
}

TEST_CASE("Stall watch: ranks too slow to be warned before the giving up are told with it") {
  TestJob job(3, 1, limits(10, 20));
  REQUIRE(job.at(0).submit(allreduce("w"), 1, at_second(0)).ok());
  job.deliver();
  pass_to(job, 25);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(job.warnings(rank) ==
          std::vector<std::string>{"allreduce \"w\" has waited 25 s for ranks 1, 2; given up"});
  }
  CHECK(job.take(0).at(0).status.code() == Code::kStalled);
}

TEST_CASE("Stall watch: a submission that crosses the giving up fails like the others") {
  TestJob job(3, 1, limits(0, 20));
  for (int rank = 0; rank < 3; ++rank) {
    REQUIRE(job.at(rank).submit(allreduce("w"), 1, at_second(0)).ok());
  }
  job.deliver();
  for (int rank = 0; rank < 3; ++rank) job.take(rank);
  REQUIRE(job.at(0).submit(allreduce("w"), 2, at_second(0)).ok());
  job.at(0).on_time(at_second(20));
  std::vector<OutFrame> queries;
  job.at(0).take_frames(queries);
  std::vector<OutFrame> answers;
  for (const OutFrame& query : queries) {
    CHECK(job.at(query.to).on_frame(0, query.bytes, at_second(20)).ok());
    std::vector<OutFrame> answer;
    job.at(query.to).take_frames(answer);
    REQUIRE(answer.size() == 1);
    CHECK(job.at(0).on_frame(query.to, answer[0].bytes, at_second(20)).ok());
  }
  REQUIRE(job.at(1).submit(allreduce("w"), 2, at_second(20)).ok());  // the verdict is on its way
  job.deliver(at_second(20));
  CHECK(job.take(0).at(0).status.code() == Code::kStalled);
  const Agreed crossed = job.take(1).at(0);
  CHECK(crossed.ticket == 2);
  CHECK(crossed.status.code() == Code::kStalled);
  for (const int rank : {0, 1}) {
    REQUIRE(job.at(rank).submit(allreduce("w"), 3, at_second(21)).ok());
  }
  job.deliver();
  CHECK(job.take(0).empty());
  CHECK(job.at(2).submit(allreduce("w"), 3, at_second(21)).code() == Code::kStalled);
  REQUIRE(job.at(2).submit(allreduce("w"), 3, at_second(21)).ok());
  job.deliver();
  for (int rank = 0; rank < 3; ++rank) CHECK(job.take(rank).back().status.ok());
  CHECK(job.refused() == 0);
}

}  // namespace ronde
