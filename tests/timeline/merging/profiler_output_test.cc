#include "timeline/merging/profiler_output.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/timeline/read_json.h"
#include "timeline/merging/merge.h"
#include "timeline/report/job_trace.h"

namespace ronde {
namespace {

/// A rank's trace that starts `rank` us after rank 0's: two steps, in one an operation.
std::string trace_of(int rank) {
  return fmt::format(
      "[\n{{\"ph\":\"M\",\"pid\":{0},\"name\":\"recording\",\"args\":{{\"rank\":{0},"
      "\"start_time_since_epoch_in_micros\":0,\"steady_start_ns\":{1},\"boot_id\":\"h\"}}}},\n"
      "{{\"ph\":\"C\",\"pid\":{0},\"tid\":0,\"ts\":1,\"name\":\"step\",\"args\":{{\"value\":1}}}},"
      "\n"
      "{{\"ph\":\"M\",\"pid\":{0},\"tid\":3,\"name\":\"thread_name\",\"args\":{{\"name\":\"w\"}}}},"
      "\n"
      "{{\"ph\":\"B\",\"pid\":{0},\"tid\":3,\"ts\":2,\"name\":\"ALLREDUCE\",\"args\":{{"
      "\"collective\":\"allreduce\",\"bytes\":8,\"bundle\":5,\"backend\":\"shm\"}}}},\n"
      "{{\"ph\":\"B\",\"pid\":{0},\"tid\":4,\"ts\":2.5,\"name\":\"never ends\"}},\n"
      "{{\"ph\":\"E\",\"pid\":{0},\"tid\":3,\"ts\":4,\"args\":{{\"pack_us\":1.25,\"wire_bytes\":2}}"
      "}},\n"
      "{{\"ph\":\"C\",\"pid\":{0},\"tid\":0,\"ts\":9,\"name\":\"step\",\"args\":{{\"value\":2}}}}"
      "\n]\n",
      rank, 1000 * rank);
}

}  // namespace

TEST_CASE("profiler output: each rank has a file of whole spans, and of its steps") {
  const ScratchFolder scratch;
  const std::string folder = scratch.file("out/");
  const auto merged = merge_traces(
      {scratch.write("b.json", trace_of(1)), scratch.write("a.json", trace_of(0))}, folder);
  REQUIRE(merged.ok());
  for (const int rank : {0, 1}) {
    const std::string path = fmt::format("{}rank{}.pt.trace.json", folder, rank);
    CHECK(content_of(path).find(fmt::format("\"rank\": {}", rank)) < 50);  // as readers look for it
    const nlohmann::json file = json_of(path);
    REQUIRE(file.is_object());
    CHECK(file["distributedInfo"]["rank"] == rank);
    CHECK(report::load_traces({path}).status().message().find("no trace of Ronde") <
          std::string::npos);  // whose reports would find no operations in it
    std::vector<nlohmann::json> spans;
    for (const auto& event : file["traceEvents"]) {
      CHECK(event["pid"] == rank);
      if (event["ph"] == "X")
        spans.push_back(event);
      else
        CHECK(event["ph"] == "M");
    }
    REQUIRE(spans.size() == 2);
    CHECK(spans[0]["name"] == "ALLREDUCE");
    CHECK(spans[0]["ts"] == 2.0 + rank);
    CHECK(spans[0]["dur"] == 2.0);
    CHECK(spans[0]["args"] == nlohmann::json{{"collective", "allreduce"},
                                             {"bytes", 8},
                                             {"bundle", 5},
                                             {"backend", "shm"},
                                             {"pack_us", 1.25},
                                             {"wire_bytes", 2}});
    CHECK(spans[1]["name"] == "ProfilerStep#2");
    CHECK(spans[1]["ts"] == 1.0 + rank);
    CHECK(spans[1]["dur"] == 8.0);
  }
}

TEST_CASE("profiler output: a folder that cannot be made is an error that names the file") {
  const ScratchFolder scratch;
  const Status status =
      merge_traces({scratch.write("a.json", trace_of(0))}, "/dev/null/out/").status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.message().find("/dev/null/out/rank0.pt.trace.json") != std::string::npos);
}

}  // namespace ronde
