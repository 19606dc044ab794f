// Ranks that wait for each other: found where that is certain, and nowhere else.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string_view>

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

TEST_CASE("Cycles: a graph blocks the names that no graph of its rank has") {
  const auto submit_both = [](TestJob& job, MaySubmit may_submit) {
    Request graph = in_graph("step");
    graph.may_submit = may_submit;
    REQUIRE(job.at(0).submit(eager("in a callback"), 1, at_ms(0)).ok());
    REQUIRE(job.at(1).submit(graph, 1, at_ms(0)).ok());
    job.deliver();
    for (int second = 1; second < 59; ++second) pass_to(job, at_ms(second * 1000));
  };
  TestJob none(2);
  submit_both(none, [](const char*) { return std::int32_t{0}; });
  CHECK(codes(none) == std::vector<Code>(2, Code::kMismatch));
  TestJob some(2);
  submit_both(some, [](const char* name) {
    return std::string_view(name) == "in a callback" ? std::int32_t{1} : std::int32_t{0};
  });
  CHECK(codes(some) == std::vector<Code>(2, Code::kOk));
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

namespace {

/// All ranks submit these, which are agreed on.
void agree_on(TestJob& job, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (int rank = 0; rank < job.size(); ++rank) {
      REQUIRE(job.at(rank).submit(allreduce(name), 1, at_ms(0)).ok());
    }
    job.deliver();
    for (int rank = 0; rank < job.size(); ++rank) REQUIRE(job.take(rank).size() == 1);
  }
}

/// The error of the two operations in which ranks wait for each other: rank 1 in `apart`.
std::string error_of(TestJob& job, const Request& common, const Request& apart) {
  for (int rank = 0; rank < job.size(); ++rank) {
    REQUIRE(job.at(rank).submit(rank == 1 ? apart : common, 1, at_ms(0)).ok());
  }
  job.deliver();
  pass_to(job, at_ms(1000));
  const std::vector<Agreed> items = job.take(0);
  REQUIRE(!items.empty());
  return items[0].status.message();
}

Request blocking(const std::string& name, Collective kind = Collective::kAllreduce) {
  Request request = request_for(kind, name);
  request.blocks = BlocksUntilDone::kEverything;
  return request;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("Cycles: a rank that no longer submits what all did before has fewer batches") {
  for (const int size : {2, 4}) {
    for (const bool metric_is_known : {false, true}) {
      TestJob job(size, 2);
      if (metric_is_known) agree_on(job, {"metric"});
      agree_on(job, {"w", "w"});
      const std::string text = error_of(job, blocking("w"), blocking("metric"));
      CHECK(has(text, "wait for each other: all ranks have submitted allreduce \"w\" before"));
      CHECK(has(text, "rank 1 probably has fewer batches than the others"));
      CHECK(has(text, "drop_last"));
      CHECK(has(text, "join()"));
      CHECK_FALSE(has(text, "the same name"));
      CHECK(has(text, "only rank 1 submits allreduce \"metric\", which") != metric_is_known);
    }
  }
}

TEST_CASE("Cycles: without a name, the operation of the same line tells of fewer batches") {
  TestJob job(2);
  agree_on(job, {""});
  const std::string text = error_of(job, blocking(""), blocking("metric", Collective::kBarrier));
  CHECK(has(text, "rank 1 probably has fewer batches"));
}

TEST_CASE("Cycles: only operations that are new and alike may be meant as one") {
  TestJob same(2);
  const std::string text = error_of(same, blocking("loss 0"), blocking("loss 1"));
  CHECK(has(text, "give them the same name"));
  TestJob kinds(2);
  CHECK(has(error_of(kinds, blocking("a"), blocking("b", Collective::kBarrier)),
            "All ranks must submit the same operations"));
  TestJob skipped(2);  // rank 1 goes to what follows, without what all submit before it
  agree_on(skipped, {"a", "b"});
  const std::string order = error_of(skipped, blocking("a"), blocking("b"));
  CHECK_FALSE(has(order, "the same name"));
}

TEST_CASE("Mismatch: an unnamed operation that meets the one after a shorter loop tells of that") {
  for (const bool metric_is_known : {false, true}) {
    TestJob job(3);
    Request metric = request_for(Collective::kAllgather, "");
    metric.call_site = "train.py:20";
    for (int step = 0; step < 3; ++step) {
      for (int rank = 0; rank < 3; ++rank) {
        const bool last = rank == 1 && step == 2;
        if (metric_is_known && step == 0) REQUIRE(job.at(rank).submit(metric, 2, {}).ok());
        REQUIRE(job.at(rank).submit(last ? metric : allreduce(""), 1, {}).ok());
      }
      job.deliver();
    }
    const std::string text = job.take(0).back().status.message();
    CHECK(
        has(text, "All ranks have submitted this allreduce before; now rank 1 probably has fewer"));
  }
  TestJob job(2);  // the same line with a smaller batch is another matter
  for (int rank = 0; rank < 2; ++rank) REQUIRE(job.at(rank).submit(allreduce(""), 1, {}).ok());
  job.deliver();
  REQUIRE(job.at(0).submit(allreduce(""), 2, {}).ok());
  REQUIRE(job.at(1).submit(allreduce("", {1, 3}), 2, {}).ok());
  job.deliver();
  CHECK_FALSE(has(job.take(0).back().status.message(), "fewer batches"));
}

}  // namespace ronde
