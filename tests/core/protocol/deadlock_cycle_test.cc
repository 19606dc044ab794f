// Ranks that wait for each other: found where that is certain, and nowhere else.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Request holding(std::string name, BlocksUntilDone holds, std::string site = "eager.py:1") {
  Request request = allreduce(std::move(name));
  request.blocks = holds;
  request.call_site = std::move(site);
  return request;
}

Request eager(std::string name = "") {
  return holding(std::move(name), BlocksUntilDone::kEverything);
}
Request in_graph(std::string name) {
  return holding(std::move(name), BlocksUntilDone::kUnnamed, "graph.py:2");
}

/// How each rank's only item ended; kOk where it has none.
std::vector<Code> codes(TestJob& job) {
  std::vector<Code> codes;
  for (int rank = 0; rank < job.size(); ++rank) {
    Code code = Code::kOk;
    for (const Agreed& item : job.take(rank)) {
      if (item.ticket != 0) code = item.status.code();
    }
    codes.push_back(code);
  }
  return codes;
}

}  // namespace

TEST_CASE("Cycles: an unnamed operation and one in a graph fail on all ranks, naming both sides") {
  for (const int per_host : {64, 1, 2}) {
    for (int odd = 0; odd < 4; ++odd) {
      for (const bool mostly_eager : {false, true}) {
        TestJob job(4, per_host);
        for (int rank = 0; rank < 4; ++rank) {
          const bool is_eager = (rank == odd) != mostly_eager;
          REQUIRE(job.at(rank).submit(is_eager ? eager() : in_graph("step"), 7, at_ms(0)).ok());
        }
        job.deliver();
        pass_to(job, at_ms(999));
        CHECK(codes(job) == std::vector<Code>(4, Code::kOk));
        pass_to(job, at_ms(1000));
        for (int rank = 0; rank < 4; ++rank) {
          const std::vector<Agreed> items = job.take(rank);
          REQUIRE(items.size() == 2);
          for (const Agreed& item : items) {
            CHECK(item.status.code() == Code::kMismatch);
            const std::string& text = item.status.message();
            CHECK(text.find("allreduce (unnamed, number 1) on rank") != std::string::npos);
            CHECK(text.find("(eager.py:1)") != std::string::npos);
            CHECK(text.find("allreduce \"step\" on rank") != std::string::npos);
            CHECK(text.find("(graph.py:2)") != std::string::npos);
          }
          CHECK(items[0].ticket + items[1].ticket == 7);
        }
        CHECK(job.refused() == 0);
      }
    }
  }
}

TEST_CASE("Cycles: the last rank is noticed a second later, on any side") {
  for (const bool eager_first : {false, true}) {
    TestJob job(3, 1);
    const Request first = eager_first ? eager() : in_graph("step");
    const Request last = eager_first ? in_graph("step") : eager();
    REQUIRE(job.at(1).submit(first, 1, at_ms(0)).ok());
    for (int second = 0; second <= 20; ++second) pass_to(job, at_ms(second * 1000));
    REQUIRE(job.at(2).submit(last, 1, at_ms(20500)).ok());
    job.deliver(at_ms(20500));
    CHECK(codes(job) == std::vector<Code>(3, Code::kOk));
    pass_to(job, at_ms(21500));
    CHECK(codes(job) == std::vector<Code>{Code::kOk, Code::kMismatch, Code::kMismatch});
    // The one that was in neither hears of it when it comes.
    CHECK(job.at(0).submit(first, 2, at_ms(22000)).code() == Code::kMismatch);
    CHECK(job.at(0).submit(last, 3, at_ms(22000)).code() == Code::kMismatch);
  }
}

TEST_CASE("Cycles: after one, the next operations match") {
  TestJob job(2);
  REQUIRE(job.at(0).submit(eager(), 1, at_ms(0)).ok());
  REQUIRE(job.at(1).submit(in_graph("step"), 1, at_ms(0)).ok());
  job.deliver();
  pass_to(job, at_ms(1000));
  CHECK(codes(job) == std::vector<Code>(2, Code::kMismatch));
  CHECK(job.at(0).submit(in_graph("step"), 2, at_ms(1100)).code() == Code::kMismatch);
  CHECK(job.at(1).submit(eager(), 2, at_ms(1100)).code() == Code::kMismatch);
  for (int rank = 0; rank < 2; ++rank) {
    REQUIRE(job.at(rank).submit(eager(), 3, at_ms(1200)).ok());
    REQUIRE(job.at(rank).submit(in_graph("step"), 4, at_ms(1200)).ok());
  }
  job.deliver();
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<Agreed> items = job.take(rank);
    REQUIRE(items.size() == 2);
    for (const Agreed& item : items) CHECK(item.status.ok());
  }
}

TEST_CASE("Cycles: two names of which each rank waits for one") {
  TestJob job(2);
  REQUIRE(job.at(0).submit(eager("a"), 1, at_ms(0)).ok());
  REQUIRE(job.at(1).submit(eager("b"), 1, at_ms(0)).ok());
  job.deliver();
  pass_to(job, at_ms(1000));
  CHECK(codes(job) == std::vector<Code>(2, Code::kMismatch));
}

TEST_CASE("Cycles: nothing fails that may still be submitted") {
  struct Case {
    std::vector<Request> first;   // what rank 0 submits
    std::vector<Request> second;  // what rank 1 submits
  };
  const std::vector<Case> cases = {
      {{eager()}, {allreduce("step")}},                 // rank 1 may submit anything
      {{allreduce("")}, {in_graph("step")}},            // rank 0 may
      {{in_graph("f")}, {in_graph("g")}},               // graphs run side by side
      {{eager("a")}, {in_graph("step")}},               // the graph may have an "a"
      {{allreduce("x"), eager()}, {in_graph("step")}},  // somebody else waits for "x"
      {{in_graph("step"), eager()}, {in_graph("step"), in_graph("other")}},
      {{eager()}, {}},
      {{}, {in_graph("step")}},
  };
  for (const Case& item : cases) {
    TestJob job(3);
    std::uint64_t ticket = 1;
    for (const Request& request : item.first) {
      REQUIRE(job.at(0).submit(request, ticket++, at_ms(0)).ok());
    }
    for (const Request& request : item.second) {
      REQUIRE(job.at(1).submit(request, ticket++, at_ms(0)).ok());
    }
    job.deliver();
    for (int second = 1; second < 59; ++second) pass_to(job, at_ms(second * 1000));
    CHECK(codes(job) == std::vector<Code>(3, Code::kOk));
    CHECK(job.refused() == 0);
  }
}

TEST_CASE("Cycles: an operation that its rank has stopped waiting for holds nothing") {
  for (const bool is_eager : {false, true}) {
    TestJob job(2);
    const auto waits = std::make_shared<std::atomic<bool>>(true);
    for (int rank = 0; rank < 2; ++rank) {
      Request request = rank == 0 ? eager() : in_graph("step");
      if ((rank == 0) == is_eager) request.waits = waits;
      REQUIRE(job.at(rank).submit(request, 1, at_ms(0)).ok());
    }
    job.deliver();
    waits->store(false);
    for (int second = 1; second < 59; ++second) pass_to(job, at_ms(second * 1000));
    CHECK(codes(job) == std::vector<Code>(2, Code::kOk));
  }
}

namespace {

/// One rank's program: operations in eager mode, and functions whose operations run side by side.
using Program = std::deque<std::vector<Request>>;

/// Runs programs, each step of one ending before the next begins, with pauses far longer than the
/// watch; what every rank got for each operation.
std::vector<std::vector<Code>> run(TestJob& job, std::vector<Program> programs,
                                   std::mt19937_64& random) {
  std::vector<std::vector<Code>> seen(programs.size());
  std::vector<std::size_t> waiting(programs.size(), 0);
  TimePoint now{};
  for (int turn = 0; turn < 4000; ++turn) {
    const std::size_t rank = random() % programs.size();
    if (waiting[rank] == 0 && !programs[rank].empty()) {
      for (const Request& request : programs[rank].front()) {
        const Status status = job.at(static_cast<int>(rank)).submit(request, 1 + random(), now);
        if (status.ok()) ++waiting[rank];
        if (!status.ok()) seen[rank].push_back(status.code());
      }
      programs[rank].pop_front();
    }
    now += milliseconds(random() % 700);
    pass_to(job, now);
    for (std::size_t other = 0; other < programs.size(); ++other) {
      for (const Agreed& item : job.take(static_cast<int>(other))) {
        if (item.ticket == 0) continue;
        seen[other].push_back(item.status.code());
        --waiting[other];
      }
    }
  }
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    if (waiting[rank] > 0 || !programs[rank].empty()) seen[rank].push_back(Code::kStalled);
  }
  return seen;
}

Program draw_program(std::mt19937_64& random) {
  Program program;
  for (int step = 0; step < 8; ++step) {
    std::vector<Request> together;
    if (random() % 2 == 0) {
      together.push_back(eager(random() % 2 == 0 ? "" : fmt::format("named{}", random() % 3)));
    } else {
      const std::size_t count = 1 + random() % 4;
      for (std::size_t i = 0; i < count; ++i) together.push_back(in_graph(fmt::format("f/{}", i)));
    }
    program.push_back(std::move(together));
  }
  return program;
}

}  // namespace

TEST_CASE("Cycles: programs that are alike never have one, however late some ranks are") {
  std::mt19937_64 random(1);
  for (int world = 0; world < 40; ++world) {
    const int size = 2 + static_cast<int>(random() % 6);
    TestJob job(size, 1 + static_cast<int>(random() % 3));
    const Program program = draw_program(random);
    std::vector<Program> programs;
    std::size_t operations = 0;
    for (const auto& step : program) operations += step.size();
    for (int rank = 0; rank < size; ++rank) {
      programs.push_back(program);
      for (auto& step : programs.back()) std::shuffle(step.begin(), step.end(), random);
    }
    for (const auto& seen : run(job, std::move(programs), random)) {
      CHECK(seen == std::vector<Code>(operations, Code::kOk));
    }
    CHECK(job.refused() == 0);
  }
}

TEST_CASE("Cycles: a program that is in eager mode where the others are in a graph ends") {
  std::mt19937_64 random(2);
  for (int world = 0; world < 40; ++world) {
    const int size = 2 + static_cast<int>(random() % 6);
    TestJob job(size, 1 + static_cast<int>(random() % 3));
    const Program program = draw_program(random);
    std::vector<Program> programs(static_cast<std::size_t>(size), program);
    const auto odd = static_cast<std::size_t>(random() % static_cast<std::uint64_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      programs[static_cast<std::size_t>(rank)].push_back(
          {static_cast<std::size_t>(rank) == odd ? eager() : in_graph("g")});
    }
    for (const auto& seen : run(job, std::move(programs), random)) {
      REQUIRE(!seen.empty());
      CHECK(seen.back() == Code::kMismatch);
      CHECK(std::count(seen.begin(), seen.end(), Code::kOk) + 1 ==
            static_cast<std::ptrdiff_t>(seen.size()));
    }
    CHECK(job.refused() == 0);
  }
}

}  // namespace ronde
