#include "timeline/arrivals.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "tests/timeline/read_json.h"
#include "timeline/merge.h"

namespace ronde {
namespace {

/// A rank's trace: its lanes, numbered from 1, and when it submits what each is of.
std::string trace_of(int rank, const std::vector<std::pair<std::string, int>>& lanes) {
  std::string text = fmt::format(
      "[{{\"ph\":\"M\",\"name\":\"recording\",\"pid\":{0},\"args\":{{\"rank\":{0},\"size\":2,"
      "\"start_time_since_epoch_in_micros\":0,\"steady_start_ns\":0,\"boot_id\":\"h\"}}}}",
      rank);
  int tid = 0;
  for (const auto& [name, time] : lanes) {
    ++tid;
    text += fmt::format(
        ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{0},\"tid\":{1},\"args\":{{\"name\":"
        "\"{2}\"}}}},\n{{\"ph\":\"B\",\"pid\":{0},\"tid\":{1},\"ts\":{3},\"name\":"
        "\"NEGOTIATE_ALLREDUCE\"}}",
        rank, tid, name, time);
  }
  return text + "]";
}

}  // namespace

TEST_CASE("arrivals: the first rank's lanes show when the others came, by the lane's name") {
  const ScratchFolder scratch;
  const auto a = scratch.write("a", trace_of(0, {{"allreduce.x", 10}, {"allreduce.y", 20}}));
  const auto b = scratch.write("b", trace_of(1, {{"allreduce.y", 25}, {"allreduce.other", 30}}));
  REQUIRE(merge_traces({b, a}, scratch.file("out")).ok());
  std::vector<nlohmann::json> marks;
  for (const auto& event : json_of(scratch.file("out"))) {
    if (event["ph"] == "i") marks.push_back(event);
  }
  REQUIRE(marks.size() == 1);
  CHECK(marks[0]["name"] == "rank 1 ready");
  CHECK(marks[0]["pid"] == 0);
  CHECK(marks[0]["tid"] == 2);
  CHECK(marks[0]["ts"] == 25);
  CHECK(marks[0]["args"]["arrived"] == 1);
}

TEST_CASE("arrivals: a merge of a merged trace does not repeat them") {
  const ScratchFolder scratch;
  const auto a = scratch.write("a", trace_of(0, {{"allreduce.x", 10}}));
  const auto b = scratch.write("b", trace_of(1, {{"allreduce.x", 25}}));
  REQUIRE(merge_traces({a, b}, scratch.file("once")).ok());
  REQUIRE(merge_traces({scratch.file("once")}, scratch.file("twice")).ok());
  const auto trace = json_of(scratch.file("twice"));
  CHECK(std::count_if(trace.begin(), trace.end(),
                      [](const auto& event) { return event["ph"] == "i"; }) == 1);
}

}  // namespace ronde
