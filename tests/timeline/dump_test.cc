#include "timeline/dump.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

Dump example() {
  Dump dump;
  dump.job = "job-1";
  dump.rank = 3;
  dump.size = 4;
  dump.host = "node1";
  dump.pid = 77;
  dump.reason = "failure";
  dump.failure = "rank 2 (pid 76 on node1) died";
  dump.failed_rank = 2;
  dump.epoch_ns = 1'700'000'000 * kSecond;
  dump.steady_ns = 100 * kSecond;
  dump.operations.push_back({.number = 1,
                             .name = "layer1/\"w\"",
                             .kind = "allreduce",
                             .set = 0,
                             .bytes = 4096,
                             .submitted_ns = 97 * kSecond,
                             .agreed_ns = 97 * kSecond + 1,
                             .started_ns = 97 * kSecond + 2,
                             .done_ns = 98 * kSecond,
                             .status = "ok"});
  dump.operations.push_back({.number = 2,
                             .name = "late",
                             .kind = "broadcast",
                             .set = 0,
                             .bytes = 8,
                             .submitted_ns = 99 * kSecond,
                             .agreed_ns = 0,
                             .started_ns = 0,
                             .done_ns = 0,
                             .status = {}});
  dump.threads.push_back(
      {.tid = 78, .name = "ronde-engine", .state = "S", .frames = {"f()", "g()"}});
  dump.script.push_back({.tid = 77,
                         .name = "MainThread",
                         .line = "train.py:12 in main",
                         .frames = {"queue.py:1 in get", "train.py:12 in main"}});
  return dump;
}

}  // namespace

TEST_CASE("Dump: what is written is read back") {
  const std::string text = format_dump(example()) + format_dump(example());
  const auto dumps = read_dumps(text);
  REQUIRE(dumps.ok());
  REQUIRE(dumps->size() == 2);
  const Dump& dump = dumps->back();
  CHECK(dump.rank == 3);
  CHECK(dump.failure == example().failure);
  CHECK(dump.epoch_ns == example().epoch_ns);
  REQUIRE(dump.operations.size() == 2);
  CHECK(dump.operations[0].name == "layer1/\"w\"");
  CHECK(dump.operations[0].started_ns == 97 * kSecond + 2);
  CHECK(dump.operations[1].status == "pending");
  CHECK_FALSE(dump.operations[1].done());
  REQUIRE(dump.threads.size() == 1);
  CHECK(dump.threads[0].frames == std::vector<std::string>{"f()", "g()"});
  REQUIRE(dump.script.size() == 1);
  CHECK(dump.script[0].tid == 77);
  CHECK(dump.script[0].name == "MainThread");
  CHECK(dump.script[0].line == "train.py:12 in main");
  CHECK(dump.script[0].frames == example().script[0].frames);
  CHECK(dump.script_error.empty());
}

TEST_CASE("Dump: the reason why a script's lines are not known is read back") {
  Dump dump = example();
  dump.script.clear();
  dump.script_error = "a thread holds the lock";
  const auto dumps = read_dumps(format_dump(dump));
  REQUIRE(dumps.ok());
  CHECK(dumps->front().script.empty());
  CHECK(dumps->front().script_error == "a thread holds the lock");
}

TEST_CASE("Dump: one that was cut off is read as far as it goes") {
  const std::string text = format_dump(example());
  const auto dumps = read_dumps(text.substr(0, text.size() - kDumpEnd.size() - 10));
  REQUIRE(dumps.ok());
  CHECK(dumps->front().operations.size() == 2);
  CHECK(dumps->front().threads.size() == 1);
  CHECK(dumps->front().script.empty());
}

TEST_CASE("Dump: what is no dump is refused, naming the line") {
  CHECK(read_dumps("hello\n").status().message() == "line 1 of the dump is not a JSON object");
  CHECK(read_dumps("{\"type\":\"operation\"}\n").status().message() ==
        "line 1 of the dump comes before a dump's head");
  CHECK_FALSE(read_dumps(format_dump(example()) + "[1]\n").ok());
  CHECK(read_dumps("").value().empty());
}

TEST_CASE("Dump: fields of a wrong type or unknown ones are passed over") {
  const auto dumps = read_dumps(
      "{\"type\":\"dump\",\"rank\":\"x\",\"new\":1}\n{\"type\":\"thread\",\"frames\":[1,\"f\"]}\n"
      "{\"type\":\"novelty\"}\n");
  REQUIRE(dumps.ok());
  CHECK(dumps->front().rank == 0);
  CHECK(dumps->front().threads.front().frames == std::vector<std::string>{"f"});
}

TEST_CASE("Dump: the summary names what is pending, since when, and what ended last") {
  CHECK(summarize_dump(example()) ==
        "rank 3 on node1: pending: \"late\" (broadcast, 8 bytes), 1.0 s, waiting for other ranks; "
        "last finished: allreduce \"layer1/\"w\"\", 2.0 s ago");
  Dump many = example();
  for (int i = 0; i < 20; ++i) many.operations.push_back(many.operations[1]);
  CHECK(summarize_dump(many).find("and 13 more") != std::string::npos);
  Dump broken = example();
  broken.operations[1].done_ns = broken.steady_ns - 10;
  broken.operations[1].status = "rank failure";
  CHECK(summarize_dump(broken).find("pending: nothing; just failed: \"late\" (broadcast, 8 bytes), "
                                    "1.0 s, waiting for other ranks; last") != std::string::npos);
  broken.operations[1].done_ns -= 2 * kSecond;
  CHECK(summarize_dump(broken).find("failed") == std::string::npos);
  CHECK(summarize_dump({}).find("pending: nothing; last finished: none yet") != std::string::npos);
}

}  // namespace ronde
