#include "timeline/merging/merge_marks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tests/timeline/read_json.h"
#include "timeline/merging/merge.h"

namespace ronde {
namespace {

using Numbers = std::vector<std::uint64_t>;

report::TraceEvent begin_of(std::int64_t rank, std::int64_t track, std::string_view name,
                            std::uint64_t bundle) {
  report::TraceEvent event;
  event.phase = 'B';
  event.pid = rank;
  event.tid = track;
  event.name = name;
  event.collective = Collective::kAllreduce;
  event.bundle = bundle;
  return event;
}

report::TraceEvent submission_of(std::int64_t rank, std::int64_t track) {
  return begin_of(rank, track, "NEGOTIATE_ALLREDUCE", 0);
}

report::TraceEvent start_of(std::int64_t rank, std::int64_t track, std::uint64_t bundle) {
  return begin_of(rank, track, "ALLREDUCE", bundle);
}

/// Bundle 7 of two tensors on three ranks: rank 1 submits the second at 400, after all others.
void survey(Flows& flows) {
  for (const std::int64_t rank : {0, 1, 2}) {
    flows.survey(submission_of(rank, 3), 100 + rank);
    flows.survey(submission_of(rank, 4), rank == 1 ? 400 : 200);
    flows.survey(start_of(rank, 3, 7), 500 + rank);
    flows.survey(start_of(rank, 4, 7), 500 + rank);
  }
  flows.end_survey();
}

}  // namespace

TEST_CASE("flows: arrows go from the last submission to the start on each other rank") {
  Flows flows;
  survey(flows);
  CHECK(flows.leaving(submission_of(0, 3), 100).empty());
  const auto first = flows.arriving(start_of(0, 3, 7), 500);
  CHECK_FALSE(flows.arriving(start_of(0, 4, 7), 500));  // the next tensor of the bundle
  CHECK(flows.leaving(submission_of(1, 3), 101).empty());
  const Numbers leaving = flows.leaving(submission_of(1, 4), 400);
  CHECK_FALSE(flows.arriving(start_of(1, 3, 7), 501));
  const auto second = flows.arriving(start_of(2, 3, 7), 502);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(leaving == Numbers{*first, *second});
  CHECK(*first != *second);
}

TEST_CASE("flows: no arrow goes back in time, as clocks that are a little off would have it") {
  Flows flows;
  for (const std::int64_t rank : {0, 1, 2}) {
    flows.survey(submission_of(rank, 3), rank == 1 ? 400 : 100);
    flows.survey(start_of(rank, 3, 7), rank == 0 ? 400 : 500);
  }
  flows.end_survey();
  CHECK_FALSE(flows.arriving(start_of(0, 3, 7), 400));
  const Numbers leaving = flows.leaving(submission_of(1, 3), 400);
  const auto arriving = flows.arriving(start_of(2, 3, 7), 500);
  REQUIRE(arriving);
  CHECK(leaving == Numbers{*arriving});  // none leaves that does not arrive
}

TEST_CASE("flows: pieces of one tensor have an arrow each, from the same submission") {
  Flows flows;
  for (const std::int64_t rank : {0, 1}) {
    flows.survey(submission_of(rank, 3), 100 + rank);
    flows.survey(start_of(rank, 3, 7), 200);
    flows.survey(start_of(rank, 3, 8), 300);
  }
  flows.end_survey();
  CHECK(flows.arriving(start_of(0, 3, 7), 200));
  CHECK(flows.arriving(start_of(0, 3, 8), 300));
  CHECK(flows.leaving(submission_of(1, 3), 101).size() == 2);
}

TEST_CASE("flows: what was submitted before the trace began, and what is no bundle, has none") {
  Flows flows;
  for (const std::int64_t rank : {0, 1}) {
    flows.survey(start_of(rank, 3, 7), 200);
    flows.survey(start_of(rank, 3, 0), 300);
  }
  flows.end_survey();
  CHECK_FALSE(flows.arriving(start_of(1, 3, 7), 200));
  CHECK_FALSE(flows.arriving(start_of(1, 3, 0), 300));
  CHECK_FALSE(flows.arriving(start_of(1, 3, 9), 300));
}

namespace {

/// A rank's trace: its tracks, numbered from 1, and when it submits what each is of.
std::string trace_of(int rank, const std::vector<std::pair<std::string, int>>& tracks) {
  std::string text = fmt::format(
      "[{{\"ph\":\"M\",\"name\":\"recording\",\"pid\":{0},\"args\":{{\"rank\":{0},\"size\":2,"
      "\"start_time_since_epoch_in_micros\":0,\"steady_start_ns\":0,\"boot_id\":\"h\"}}}}",
      rank);
  int tid = 0;
  for (const auto& [name, time] : tracks) {
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

TEST_CASE("arrivals: the first rank's tracks show when the others came, by the track's name") {
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
