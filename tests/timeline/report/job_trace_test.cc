#include "timeline/report/job_trace.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/support/contains.h"
#include "tests/timeline/report/synthetic.h"
#include "timeline/merging/merge.h"
#include "timeline/recording/machine_probe.h"

namespace ronde::report {
namespace {

using test::contains;

std::string message_of(const std::vector<std::string>& paths) {
  const auto job = load_traces(paths);
  CHECK_FALSE(job.ok());
  return job.status().message();
}

}  // namespace

TEST_CASE("load: the ranks' bundles are on one clock") {
  const ScratchFolder scratch;
  Plan plan;
  plan.steps = 3;
  const auto job = load_traces(write_traces(scratch, plan));
  REQUIRE(job.ok());
  REQUIRE(job->ranks.size() == 4);
  for (const RankTrace& rank : job->ranks) {
    REQUIRE(rank.operations.size() == 6);
    CHECK(rank.operations[0].bundle == 1);
    CHECK(rank.operations[0].tensors == 3);
    CHECK(rank.operations[0].bytes == 1 << 20);
    CHECK(rank.operations[0].end_ns == job->ranks[0].operations[0].end_ns);
    CHECK(rank.steps.size() == 3);
    CHECK(rank.waits.size() == 3);
    CHECK(rank.unfinished.empty());
  }
  CHECK(job->tensors.size() == 6);
  CHECK(job->notes.empty());
}

TEST_CASE("load: a merged trace reads like the traces it was made of") {
  const ScratchFolder scratch;
  const auto paths = write_traces(scratch, Plan{.steps = 5});
  const std::string merged = scratch.file("merged.json");
  REQUIRE(merge_traces(paths, merged).ok());
  const auto apart = load_traces(paths);
  const auto together = load_traces({merged});
  REQUIRE(apart.ok());
  REQUIRE(together.ok());
  CHECK(together->events == apart->events);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto& a = apart->ranks[rank].operations;
    const auto& b = together->ranks[rank].operations;
    REQUIRE(a.size() == b.size());
    CHECK(a[3].start_ns == b[3].start_ns);
    CHECK(a[3].bundle == b[3].bundle);
  }
}

TEST_CASE("load: times in which a connection did not work are the rank's") {
  const ScratchFolder scratch;
  auto texts = traces_of(Plan{.steps = 3});
  std::string& text = texts[1];
  text.resize(text.rfind("\n]"));
  text +=
      ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":99,\"name\":\"thread_name\",\"args\":{\"name\":"
      "\"connections\"}},\n{\"ph\":\"B\",\"pid\":1,\"tid\":99,\"ts\":100,\"name\":\"OUTAGE rank "
      "0\"},"
      "\n{\"ph\":\"E\",\"pid\":1,\"tid\":99,\"ts\":350}\n]";
  const auto job = load_traces({scratch.write("0", texts[0]), scratch.write("1", text)});
  REQUIRE(job.ok());
  CHECK(job->ranks[0].outages.empty());
  REQUIRE(job->ranks[1].outages.size() == 1);
  const NamedSpan& outage = job->ranks[1].outages.front();
  CHECK(job->names.text_of(outage.name) == "OUTAGE rank 0");
  CHECK(outage.end_ns - outage.start_ns == 250'000);
}

TEST_CASE("load: what was measured when recording ended is the rank's") {
  const ScratchFolder scratch;
  auto texts = traces_of(Plan{.steps = 3});
  texts.resize(2);
  const auto add = [&](std::size_t rank, std::string_view name, double value) {
    std::string& text = texts[rank];
    text.resize(text.rfind("\n]"));
    text += fmt::format(
        ",\n{{\"ph\":\"C\",\"pid\":{},\"tid\":0,\"ts\":1e6,\"name\":\"{}\",\"args\":{{\"value\":{}}"
        "}}}\n]",
        rank, name, value);
  };
  add(0, kMemoryCopyCounter, 7.5);
  add(0, kFp16CodingCounter, 0.25);
  add(0, kInt8CodingCounter, 0.5);
  add(1, kFp16CodingCounter, 0.75);
  const auto job = load_traces({scratch.write("0", texts[0]), scratch.write("1", texts[1])});
  REQUIRE(job.ok());
  CHECK(job->ranks[0].memory_gbps == 7.5);
  CHECK(job->ranks[0].coding.fp16_ns == 0.25);
  CHECK(job->ranks[0].coding.int8_ns == 0.5);
  CHECK(job->ranks[1].coding.fp16_ns == 0.75);
  CHECK(job->ranks[1].coding.int8_ns == 0);  // not told
}

TEST_CASE("load: traces that do not belong together are refused by name") {
  const ScratchFolder scratch;
  const ScratchFolder other;
  const auto paths = write_traces(scratch, Plan{.steps = 3});
  const auto strange = write_traces(other, Plan{.steps = 3, .job = "another"});
  CHECK(contains(message_of({paths[0], strange[1]}), "several jobs"));
  CHECK(contains(message_of({paths[0], paths[0]}), "rank 0 has a trace already"));
  const std::string merged = scratch.file("merged.json");
  REQUIRE(merge_traces({paths[0], paths[1]}, merged).ok());
  CHECK(contains(message_of({merged, paths[2]}), "merged"));
}

TEST_CASE("load: what is no trace is refused, with the byte where it is malformed") {
  const ScratchFolder scratch;
  const auto paths = write_traces(scratch, Plan{.steps = 3});
  CHECK(contains(message_of({scratch.file("none.json")}), "none.json"));
  CHECK(contains(message_of({scratch.write("text", "hello")}), "byte 0"));
  CHECK(contains(message_of({scratch.write("foreign", "[{\"ph\":\"i\",\"ts\":1}]")}),
                 "no trace of Ronde"));
  std::string broken = content_of(paths[1]);
  broken.insert(broken.size() - 3, ",\n{\"ph\":}");
  CHECK(contains(message_of({paths[0], scratch.write("broken", broken)}), "broken: byte "));
}

TEST_CASE("load: a trace cut short and a missing one are noted") {
  const ScratchFolder scratch;
  const auto paths = write_traces(scratch, Plan{.steps = 3});
  std::string cut = content_of(paths[1]);
  cut.resize(cut.size() / 2);
  const auto job = load_traces({paths[0], scratch.write("cut", cut), paths[3]});
  REQUIRE(job.ok());
  REQUIRE(job->notes.size() == 2);
  CHECK(contains(job->notes[0], "rank 2"));
  CHECK(contains(job->notes[1], "rank 1 was cut short"));
}

TEST_CASE("load: progress ends with all bytes") {
  const ScratchFolder scratch;
  std::uint64_t last = 0;
  std::uint64_t whole = 1;
  const auto job =
      load_traces(write_traces(scratch, {}), [&](std::uint64_t done, std::uint64_t all) {
        last = done;
        whole = all;
      });
  REQUIRE(job.ok());
  CHECK(last == whole);
}

}  // namespace ronde::report
