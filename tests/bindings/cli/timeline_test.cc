// `ronde timeline`, and what `ronde run --timeline` does with the traces of its ranks.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/bindings/cli/program.h"
#include "tests/support/contains.h"
#include "tests/timeline/read_json.h"

namespace ronde {
namespace {

/// Ranks that write a trace of one event each, as the recorder would, at a start of their own.
constexpr const char* kWriteTrace =
    "f=$(echo $RONDE_TIMELINE | sed s/.json/.rank$RANK.json/); "
    "echo '[{\"ph\":\"M\",\"args\":{\"start_time_since_epoch_in_micros\":'$((1000+RANK))'}},' > "
    "$f; "
    "echo '{\"ph\":\"i\",\"name\":\"x\",\"pid\":'$RANK',\"ts\":1}]' >> $f; ";

using test::contains;

}  // namespace

TEST_CASE("timeline: a job's traces are merged when it ends") {
  const ScratchFolder scratch;
  const std::string path = scratch.file("t.json");
  const Finished job = run_ronde({"run", "-np", "2", "--timeline", path, "sh", "-c", kWriteTrace});
  CHECK(job.status == 0);
  CHECK(contains(job.err, "timeline of 2 ranks in " + path));
  const nlohmann::json merged = json_of(path);
  REQUIRE(merged.size() == 4);
  CHECK(merged[1]["ts"] == 1.0);
  CHECK(merged[3]["ts"] == 2.0);
}

TEST_CASE("timeline: traces are merged after a failure too, and old ones are not taken for new") {
  const ScratchFolder scratch;
  const std::string path = scratch.file("t.json");
  scratch.write("t.rank1.json", "stale");
  const Finished job = run_ronde({"run", "-np", "2", "--timeline", path, "sh", "-c",
                                  std::string("[ $RANK = 1 ] && exit 5; ") + kWriteTrace});
  CHECK(job.status == 5);
  CHECK(contains(job.err, "ronde run: rank 1 left no timeline on this host"));
  CHECK(json_of(path).size() == 2);
}

TEST_CASE("timeline: several ranks without a trace are named in one sentence") {
  const ScratchFolder scratch;
  const Finished job =
      run_ronde({"run", "-np", "2", "--timeline", scratch.file("t.json"), "sh", "-c", "exit 5"});
  CHECK(contains(job.err, "ronde run: ranks 0, 1 left no timeline on this host"));
}

TEST_CASE("timeline: merge says what it did, and names what it cannot read") {
  const ScratchFolder scratch;
  const std::string good = scratch.write(
      "good.json", "[{\"args\":{\"start_time_since_epoch_in_micros\":1}},{\"ts\":1}]");
  const std::string output = scratch.file("out.json");
  const Finished merged = run_ronde({"timeline", "merge", good, "-o", output});
  CHECK(merged.status == 0);
  CHECK(contains(merged.out, "2 events of 1 traces"));
  const std::string bad = scratch.write("bad.json", "nonsense");
  const Finished refused = run_ronde({"timeline", "merge", good, bad, "-o", output});
  CHECK(refused.status == 2);
  CHECK(contains(refused.err, bad + ": byte 0"));
  CHECK(run_ronde({"timeline", "merge", good}).status == 2);
  CHECK(run_ronde({"timeline"}).status == 2);
}

TEST_CASE("timeline: a report of a trace in Perfetto's format names the traces it can read") {
  const ScratchFolder scratch;
  const Finished refused = run_ronde({"timeline", "report", scratch.write("t.pftrace", "x")});
  CHECK(refused.status == 2);
  CHECK(contains(refused.err, scratch.file("t.rank0.json")));
}

TEST_CASE("timeline: a report in a folder that is gone says so") {
  const ScratchFolder scratch;
  std::vector<std::string> command = {"sh", "-c", "mkdir $0 && cd $0 && rmdir $0 && exec \"$@\"",
                                      scratch.file("gone")};
  const auto report = ronde_command({"timeline", "report", "t.json"});
  command.insert(command.end(), report.begin(), report.end());
  const Finished refused = Program(command).wait();
  CHECK(refused.status != 0);
  CHECK(contains(refused.err, "--output timeline-report.html: the current folder cannot be used"));
}

TEST_CASE("top: a count below zero is refused in a line that can be read") {
  const Finished refused = run_ronde({"top", "t.json", "-n", "-1"});
  CHECK(refused.status == 2);
  CHECK(contains(refused.err, "-1"));
  CHECK(contains(refused.err, "1000000"));
  CHECK(refused.err.size() < 200);
}

}  // namespace ronde
