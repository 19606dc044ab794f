#include "timeline/report/faults.h"

#include <doctest/doctest.h>

#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde::report {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

DumpOperation done(const std::string& name, std::int64_t at_s, const std::string& status = "ok") {
  DumpOperation operation;
  operation.name = name;
  operation.kind = "allreduce";
  operation.bytes = 4;
  operation.submitted_ns = (at_s - 1) * kSecond;
  operation.agreed_ns = status == "ok" ? at_s * kSecond : 0;
  operation.done_ns = at_s * kSecond;
  operation.status = status;
  return operation;
}

DumpOperation pending(const std::string& name, std::int64_t since_s, bool agreed = false) {
  DumpOperation operation;
  operation.name = name;
  operation.kind = "allreduce";
  operation.bytes = 4096;
  operation.submitted_ns = since_s * kSecond;
  operation.agreed_ns = agreed ? since_s * kSecond + 1 : 0;
  return operation;
}

/// A dump made at 100 s, on a host whose steady clock is `ahead_s` ahead.
Dump dump_of(int rank, std::vector<DumpOperation> operations, std::int64_t ahead_s = 0) {
  Dump dump;
  dump.job = "job";
  dump.rank = rank;
  dump.size = 3;
  dump.host = "node1";
  dump.pid = 70 + rank;
  dump.reason = "stall";
  dump.epoch_ns = 1'000'100 * kSecond;
  dump.steady_ns = (100 + ahead_s) * kSecond;
  for (DumpOperation& operation : operations) {
    for (std::int64_t* at : {&operation.submitted_ns, &operation.agreed_ns, &operation.done_ns}) {
      if (*at != 0) *at += ahead_s * kSecond;
    }
  }
  dump.operations = std::move(operations);
  return dump;
}

Dump broken(Dump dump, int failed) {
  dump.reason = "failure";
  dump.failure = "rank 2 (pid 72 on node1) died: killed by signal 9";
  dump.failed_rank = failed;
  return dump;
}

using test::contains;

Finding first_of(const JobDumps& dumps) { return find_faults(dumps).front(); }

}  // namespace

TEST_CASE("find_faults: the rank that died is named, with what the others waited for") {
  JobDumps dumps;
  dumps.ranks.push_back(broken(dump_of(0, {done("a", 90), done("b", 99, "rank failure")}), 2));
  dumps.ranks.push_back(broken(dump_of(1, {done("a", 90), done("b", 99, "rank failure")}), 2));
  const Finding finding = first_of(dumps);
  CHECK(finding.cause == Cause::kFailure);
  CHECK(finding.rank == 2);
  CHECK(contains(finding.text, "killed by signal 9"));
  CHECK(contains(finding.text, "2 of 2 dumps"));
  CHECK(contains(finding.text, "allreduce \"b\""));
  CHECK(contains(finding.text, "Rank 2 left no dump"));
  CHECK(contains(fault_report(dumps, {finding}), "no dump of rank 2"));
}

TEST_CASE("find_faults: of a rank that left in order the others say what it never submitted") {
  JobDumps dumps;
  Dump waiting = broken(dump_of(0, {done("a", 90), done("lonely", 99, "rank failure")}), 1);
  waiting.operations.back().agreed_ns = 0;
  waiting.operations.back().done_ns = waiting.steady_ns - 1;
  waiting.failure = "rank 1 has left the job (pid 71 on node1); allreduce \"lonely\" waits for it";
  dumps.ranks.push_back(waiting);
  const Finding finding = first_of(dumps);
  CHECK(finding.rank == 1);
  CHECK(contains(finding.text, "for rank 1 in allreduce \"lonely\""));
  CHECK(contains(finding.text, "Rank 1 never submitted it and left."));
  CHECK_FALSE(contains(finding.text, "killed"));
  CHECK(contains(finding.advice, "fewer batches"));
  const std::string report = fault_report(dumps, {finding});
  CHECK(contains(report, "waiting for other ranks; rank 1 left the job and never submitted it"));
  CHECK(contains(summarize_dump(waiting), "rank 1 left the job and never submitted it"));
  dumps.ranks[0].failure = "rank 1 has left the job: ValueError: no data (pid 71 on node1)";
  CHECK(contains(first_of(dumps).text, "Rank 1 left before it ran."));
}

TEST_CASE("find_faults: the rank that has not submitted what others wait for is named") {
  JobDumps dumps;
  dumps.ranks.push_back(dump_of(0, {done("a", 90), pending("b", 95)}));
  dumps.ranks.push_back(dump_of(1, {done("a", 90)}, 5000));  // another host, another clock
  dumps.ranks.push_back(dump_of(2, {done("a", 90), pending("b", 94)}));
  const Finding finding = first_of(dumps);
  CHECK(finding.rank == 1);
  CHECK(contains(finding.text, "Rank 1 (pid 71 on node1) has not submitted allreduce \"b\""));
  CHECK(contains(finding.text, "not waiting in Ronde"));
}

TEST_CASE("find_faults: an operation of the same name that ended before does not count") {
  JobDumps dumps;
  dumps.ranks.push_back(dump_of(0, {done("a", 90), pending("a", 95)}));
  dumps.ranks.push_back(dump_of(1, {done("a", 90)}, -50));
  CHECK(first_of(dumps).rank == 1);
}

/// Of a raw group, which has no names to compare.
DumpOperation call(std::uint64_t number, DumpOperation operation) {
  operation.set = -5;
  operation.call = number;
  return operation;
}

TEST_CASE("find_faults: of a raw group the rank that has made fewer calls is named") {
  JobDumps dumps;
  dumps.ranks.push_back(dump_of(0, {call(7, pending("group of ranks 0,1,2", 95))}));
  dumps.ranks.push_back(dump_of(1, {call(6, done("group of ranks 0,1,2", 94))}));
  dumps.ranks.push_back(dump_of(2, {call(8, pending("group of ranks 0,1,2", 97))}));
  const Finding finding = first_of(dumps);
  CHECK(finding.rank == 1);
  CHECK(contains(finding.text,
                 "has not submitted allreduce group of ranks 0,1,2, call 7 (4096 bytes)"));
}

TEST_CASE("find_faults: ranks that wait in different operations are told of one another") {
  JobDumps dumps;
  dumps.ranks.push_back(dump_of(0, {pending("x", 95)}));
  dumps.ranks.push_back(dump_of(1, {pending("y", 95)}));
  CHECK(contains(first_of(dumps).text, "different order"));
}

TEST_CASE("find_faults: of an operation that moves data a rank without a dump is suspected") {
  JobDumps dumps;
  dumps.ranks.push_back(dump_of(0, {pending("x", 95, true)}));
  dumps.ranks.push_back(dump_of(2, {pending("x", 95, true)}));
  const Finding finding = first_of(dumps);
  CHECK(finding.rank == 1);
  CHECK(contains(finding.text, "rank 1 left no dump"));
}

TEST_CASE("find_faults: dumps of a job that works blame nobody") {
  JobDumps dumps;
  dumps.ranks.push_back(dump_of(0, {done("a", 99)}));
  const Finding finding = first_of(dumps);
  CHECK(finding.cause == Cause::kNone);
  CHECK(finding.rank == -1);
}

TEST_CASE("load_dumps: of each rank the failure counts, and of several jobs the latest") {
  const ScratchFolder scratch;
  Dump old = dump_of(0, {});
  old.job = "yesterday";
  old.epoch_ns -= 10 * kSecond;
  const std::string text = format_dump(old) + format_dump(broken(dump_of(0, {}), 2)) +
                           format_dump(dump_of(0, {done("later", 99)}));
  const std::string path = scratch.write("ronde-dump.job.rank0.jsonl", text);
  std::vector<std::string> paths = {path, scratch.write("trace.json", "[]")};
  const auto files = take_dumps(paths);
  REQUIRE(files.ok());
  CHECK(*files == std::vector<std::string>{path});
  CHECK(paths.size() == 1);
  const auto dumps = load_dumps(*files);
  REQUIRE(dumps.ok());
  REQUIRE(dumps->ranks.size() == 1);
  CHECK(dumps->ranks.front().failed_rank == 2);
  REQUIRE(dumps->notes.size() == 1);
  CHECK(contains(dumps->notes.front(), "yesterday"));
}

TEST_CASE("load_dumps: what is none is refused by name and line") {
  const ScratchFolder scratch;
  const std::string path = scratch.write("x.jsonl", format_dump(dump_of(0, {})) + "nonsense\n");
  const Status status = load_dumps({path}).status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(contains(status.message(), path));
  CHECK(contains(status.message(), "line 3"));
  CHECK_FALSE(load_dumps({scratch.write("empty.jsonl", "")}).ok());
  std::vector<std::string> folder = {scratch.file("")};
  std::filesystem::remove(path);
  std::filesystem::remove(scratch.file("empty.jsonl"));
  CHECK(contains(take_dumps(folder).status().message(), "ronde-dump"));
}

}  // namespace ronde::report
