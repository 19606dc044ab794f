#include "timeline/recording/trace_format.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace ronde {
namespace {

using nlohmann::json;

RecordingInfo info() { return {3, 4, "node\"7", "boot", 1'000'000, 555}; }

Event event(EventKind kind, std::string_view track, std::string_view name) {
  Event event;
  event.kind = kind;
  event.at_ns = 1'002'500;
  event.track = track;
  event.name = name;
  return event;
}

json lines_of(const std::string& lines) { return json::parse("[{}" + lines + "]"); }

}  // namespace

TEST_CASE("trace format: the header names rank, host and both clocks") {
  const json header = json::parse("[" + format_header(info()) + "]");
  CHECK(header[0]["args"]["name"] == "rank 3 (node\"7)");
  CHECK(header[2]["args"]["start_time_since_epoch_in_micros"] == 555);
  CHECK(header[2]["args"]["steady_start_ns"] == 1'000'000);
}

TEST_CASE("trace format: a span has a named track, a time in microseconds and its facts") {
  TraceFormatter formatter(info());
  std::string lines;
  Event begin = event(EventKind::kBegin, "allreduce.w", "ALLREDUCE");
  begin.collective = Collective::kReduceScatter;
  begin.bytes = 4096;
  begin.tensors = 2;
  begin.algorithm = "ring";
  begin.backend = "shm";
  formatter.append(lines, begin);
  formatter.append(lines, event(EventKind::kEnd, "allreduce.w", ""));
  const json got = lines_of(lines);
  REQUIRE(got.size() == 4);
  CHECK(got[1]["args"]["name"] == "allreduce.w");
  CHECK(got[1]["ph"] == "M");
  CHECK(got[2]["ph"] == "B");
  CHECK(got[2]["ts"] == 2.5);
  CHECK(got[2]["pid"] == 3);
  CHECK(got[2]["tid"] == got[1]["tid"]);
  CHECK(got[2]["args"] == json({{"collective", "reduce_scatter"},
                                {"bytes", 4096},
                                {"tensors", 2},
                                {"algorithm", "ring"},
                                {"backend", "shm"}}));
  CHECK(got[3]["ph"] == "E");
  CHECK_FALSE(got[3].contains("args"));
}

TEST_CASE("trace format: a span says which bundle it is of, and how long it was packed") {
  TraceFormatter formatter(info());
  std::string lines;
  Event begin = event(EventKind::kBegin, "allreduce.w", "ALLREDUCE");
  begin.bundle = (std::uint64_t{7} << 40) | 3;
  Event end = event(EventKind::kEnd, "allreduce.w", "");
  end.pack_ns = 12'345;
  end.compression = {.wire_bytes = 77, .compress_ns = 2000, .wire_ns = 3000, .decompress_ns = 4000};
  formatter.append(lines, begin);
  formatter.append(lines, end);
  const json got = lines_of(lines);
  CHECK(got[2]["args"]["bundle"] == (std::uint64_t{7} << 40 | 3));
  CHECK(got[3]["args"]["pack_us"] == 12.345);
  CHECK(got[3]["args"]["wire_bytes"] == 77);
  CHECK(got[3]["args"]["compress_us"] == 2);
  CHECK(got[3]["args"]["wire_us"] == 3);
  CHECK(got[3]["args"]["decompress_us"] == 4);
}

TEST_CASE("trace format: names of any bytes stay valid JSON") {
  TraceFormatter formatter(info());
  std::string lines;
  formatter.append(lines, event(EventKind::kInstant, "quote\" back\\ new\nline", "\xff\xfe\x01"));
  const json got = lines_of(lines);
  CHECK(got[1]["args"]["name"] == "quote\" back\\ new\nline");
  CHECK(got[2]["name"].get<std::string>().find('\x01') != std::string::npos);
}

TEST_CASE("trace format: an end without its begin is left out") {
  TraceFormatter formatter(info());
  std::string lines;
  formatter.append(lines, event(EventKind::kEnd, "a", ""));
  formatter.append(lines, event(EventKind::kBegin, "a", "X"));
  formatter.append(lines, event(EventKind::kEnd, "a", ""));
  formatter.append(lines, event(EventKind::kEnd, "a", ""));
  const json got = lines_of(lines);
  REQUIRE(got.size() == 4);
  CHECK(got[3]["ph"] == "E");
}

TEST_CASE("trace format: counters that are no numbers are null") {
  TraceFormatter formatter(info());
  std::string lines;
  Event counter = event(EventKind::kCounter, "", "queue");
  counter.value = 2.5;
  formatter.append(lines, counter);
  counter.value = std::numeric_limits<double>::infinity();
  formatter.append(lines, counter);
  const json got = lines_of(lines);
  CHECK(got[1]["args"]["value"] == 2.5);
  CHECK(got[2]["args"]["value"].is_null());
}

TEST_CASE("trace format: lost events are said in the trace") {
  std::string lines;
  TraceFormatter(info()).append_dropped(lines, 12, 1'000'000);
  CHECK(lines_of(lines)[1]["name"] == "12 events lost so far");
  CHECK(lines_of(lines)[1]["args"]["lost"] == 12);
}

}  // namespace ronde
