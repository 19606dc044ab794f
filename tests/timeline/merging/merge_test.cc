#include "timeline/merging/merge.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tests/timeline/read_json.h"
#include "timeline/recording/trace_head.h"

namespace ronde {
namespace {

std::string trace(const std::string& boot, long steady_ns, long epoch_us, double time) {
  return fmt::format(
      "[\n{{\"ph\":\"M\",\"args\":{{\"start_time_since_epoch_in_micros\":{},\"steady_start_ns\":{},"
      "\"boot_id\":\"{}\"}}}},\n{{\"ph\":\"i\",\"name\":\"{}\",\"ts\":{}}}\n]\n",
      epoch_us, steady_ns, boot, boot, time);
}

double time_of(const nlohmann::json& merged, std::size_t index) {
  return merged[index]["ts"].get<double>();
}

}  // namespace

TEST_CASE("merge: ranks of one host follow their steady clock, though its wall clock jumped") {
  const ScratchFolder scratch;
  const auto a = scratch.write("a", trace("h1", 5'000'000, 1'000'000, 10));
  const auto b = scratch.write("b", trace("h1", 7'000'500, 9'000'000, 10));
  const auto report = merge_traces({a, b}, scratch.file("out"));
  REQUIRE(report.ok());
  CHECK(report->events == 4);
  const nlohmann::json merged = json_of(scratch.file("out"));
  CHECK(time_of(merged, 1) == 10);
  CHECK(time_of(merged, 3) == 2010.5);
}

TEST_CASE("merge: hosts follow their wall clocks; the earliest is time 0") {
  const ScratchFolder scratch;
  const auto a = scratch.write("a", trace("h1", 9'000'000'000, 2'000'000, 1));
  const auto b = scratch.write("b", trace("h2", 1, 1'000'000, 1));
  REQUIRE(merge_traces({a, b}, scratch.file("out")).ok());
  const nlohmann::json merged = json_of(scratch.file("out"));
  CHECK(time_of(merged, 1) == 1'000'001);
  CHECK(time_of(merged, 3) == 1);
}

TEST_CASE("merge: a trace cut short by a kill gives what it has, and is named") {
  const ScratchFolder scratch;
  const auto a = scratch.write("a", trace("h1", 0, 0, 1));
  std::string cut = trace("h1", 0, 0, 2);
  cut.resize(cut.size() - 8);
  const auto b = scratch.write("b", cut);
  const auto report = merge_traces({a, b}, scratch.file("out"));
  REQUIRE(report.ok());
  CHECK(report->truncated == std::vector<std::string>{b});
  CHECK(json_of(scratch.file("out")).size() == 3);
}

TEST_CASE("merge: malformed input names file and byte, and leaves no output behind") {
  const ScratchFolder scratch;
  const std::string good = trace("h1", 0, 0, 1);
  const auto bad = scratch.write("bad.json", good.substr(0, good.size() - 3) + ",\n{\"ts\":}]");
  const auto result = merge_traces({bad}, scratch.file("out"));
  CHECK(result.status().code() == Code::kInvalidArgument);
  CHECK(result.status().message().find("bad.json: byte ") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(scratch.file("out")));
  CHECK(std::distance(std::filesystem::directory_iterator(std::filesystem::path(bad).parent_path()),
                      {}) == 1);
}

TEST_CASE("merge: a trace without a clock is refused by name") {
  const ScratchFolder scratch;
  const auto plain = scratch.write("plain.json", "[{\"ts\":1}]");
  CHECK(merge_traces({plain}, scratch.file("out")).status().message().find("plain.json") !=
        std::string::npos);
}

TEST_CASE("merge: only the event's own time is moved, wherever it stands") {
  const ScratchFolder scratch;
  const auto a = scratch.write("a", trace("h1", 0, 0, 1));
  const auto b = scratch.write(
      "b",
      "[{\"args\":{\"start_time_since_epoch_in_micros\":0,\"steady_start_ns\":1000000,"
      "\"boot_id\":\"h1\"}},"
      "{\"args\":{\"ts\":7,\"x\":[{\"ts\":8}]},\"name\":\"\\\"ts\\\":9\", \"ts\" : 5.25e1 }]");
  REQUIRE(merge_traces({a, b}, scratch.file("out")).ok());
  const nlohmann::json event = json_of(scratch.file("out"))[3];
  CHECK(event["ts"] == 1052.5);
  CHECK(event["args"]["ts"] == 7);
  CHECK(event["args"]["x"][0]["ts"] == 8);
  CHECK(event["name"] == "\"ts\":9");
}

TEST_CASE("merge: traces are read and written compressed too") {
  const ScratchFolder scratch;
  const auto a = scratch.write("a", trace("h1", 0, 0, 1));
  REQUIRE(merge_traces({a}, scratch.file("out.json.gz")).ok());
  CHECK(content_of(scratch.file("out.json.gz")).substr(0, 2) == "\x1f\x8b");
  REQUIRE(merge_traces({scratch.file("out.json.gz")}, scratch.file("out")).ok());
  CHECK(time_of(json_of(scratch.file("out")), 1) == 1);
}

TEST_CASE("merge: Perfetto's format says what compression made of an operation") {
  const ScratchFolder scratch;
  std::string one = trace("h1", 0, 0, 1);
  one.resize(one.size() - 3);
  one +=
      ",\n{\"ph\":\"E\",\"pid\":0,\"tid\":1,\"ts\":3,\"args\":{\"wire_bytes\":77,"
      "\"compress_us\":0.002,\"wire_us\":0.003,\"decompress_us\":0.004}}\n]\n";
  REQUIRE(merge_traces({scratch.write("a", one)}, scratch.file("out.pftrace")).ok());
  const std::string written = content_of(scratch.file("out.pftrace"));
  // A debug annotation: field 10 is its name, field 3 a number.
  const auto says = [&](const std::string& name, char value) {
    const std::string wanted =
        std::string("\x52") + static_cast<char>(name.size()) + name + '\x18' + value;
    return written.find(wanted) != std::string::npos;
  };
  CHECK(says("wire_bytes", 77));
  CHECK(says("compress_ns", 2));
  CHECK(says("wire_ns", 3));
  CHECK(says("decompress_ns", 4));
}

TEST_CASE("merge: in Perfetto's format a mark of a whole rank is on that rank's track") {
  const ScratchFolder scratch;
  std::string one = trace("h1", 0, 0, 1);
  one.resize(one.size() - 3);
  one +=
      ",\n{\"ph\":\"i\",\"pid\":0,\"tid\":0,\"ts\":3,\"name\":\"recording "
      "paused\",\"s\":\"p\"}\n]\n";
  REQUIRE(merge_traces({scratch.write("a", one)}, scratch.file("out.pftrace")).ok());
  const std::string written = content_of(scratch.file("out.pftrace"));
  // Field 11 of an event is its track, and 2^32 that of rank 0; it was on 2^32 + 1, which is none.
  CHECK(written.find("\x58\x80\x80\x80\x80\x10") != std::string::npos);
  CHECK(written.find("\x58\x81\x80\x80\x80\x10") == std::string::npos);
}

TEST_CASE("merge: in Perfetto's format ranks stand in order, and so do the tracks of each") {
  const ScratchFolder scratch;
  std::vector<std::string> traces;
  for (const int rank : {11, 2}) {
    std::string text = trace("h1", rank, 0, 1);
    text.resize(text.size() - 3);
    text += fmt::format(
        ",\n{{\"ph\":\"M\",\"pid\":{0},\"name\":\"process_name\",\"args\":{{\"name\":\"rank {0} "
        "(h1)\"}}}},"
        "\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":3,\"name\":\"thread_name\",\"args\":{{\"name\":\"t\"}"
        "}}}\n]\n",
        rank);
    traces.push_back(scratch.write(std::to_string(rank), text));
  }
  REQUIRE(merge_traces(traces, scratch.file("out.pftrace")).ok());
  const std::string written = content_of(scratch.file("out.pftrace"));
  // Rows are sorted by their names. Field 11, the order of what is below them: explicit.
  CHECK(written.find("rank 11 (h1)\x58\x03") != std::string::npos);
  CHECK(written.find("rank 02 (h1)\x58\x03") != std::string::npos);
  // Field 5 of a track is the rank's track, and field 12 its place there.
  CHECK(written.find("\x28\x80\x80\x80\x80\xc0\x01\x60\x04") != std::string::npos);
}

TEST_CASE("merge: an arrow joins the last submission of a bundle to its start on other ranks") {
  const ScratchFolder scratch;
  const auto of_rank = [&](int rank) {
    std::string text = trace("h1", rank, 0, 1);
    text.resize(text.size() - 3);
    for (const int track : {1, 2, 3}) {
      text += fmt::format(
          ",\n{{\"ph\":\"B\",\"pid\":{0},\"tid\":{1},\"ts\":{2},\"name\":\"NEGOTIATE_ALLREDUCE\"}},"
          "\n"
          "{{\"ph\":\"E\",\"pid\":{0},\"tid\":{1},\"ts\":8}},\n"
          "{{\"ph\":\"B\",\"pid\":{0},\"tid\":{1},\"ts\":9,\"name\":\"ALLREDUCE\","
          "\"args\":{{\"bundle\":7}}}}",
          rank, track, rank + track);
    }
    return scratch.write(std::to_string(rank), text + "\n]\n");
  };
  const std::vector<std::string> traces = {of_rank(0), of_rank(1)};
  REQUIRE(merge_traces(traces, scratch.file("out.pftrace")).ok());
  const std::string written = content_of(scratch.file("out.pftrace"));
  const std::string flow("\xf9\x02\x01\0\0\0\0\0\0\0", 10);  // field 47, 64 bits
  const std::size_t start = written.find(flow);
  const std::size_t end = written.rfind(flow);
  REQUIRE(start != std::string::npos);
  CHECK(written.find(flow, start + 1) == end);
  CHECK(start != end);  // two ends, though each rank has three tensors of the bundle

  REQUIRE(merge_traces(traces, scratch.file("out.json")).ok());
  std::vector<std::tuple<std::string, int, int, double>> ends;
  for (const auto& event : json_of(scratch.file("out.json"))) {
    if (event.value("name", "") != "bundle") continue;
    ends.emplace_back(event["ph"], event["pid"], event["tid"], event["ts"]);
  }
  CHECK(ends == std::vector<std::tuple<std::string, int, int, double>>{{"f", 0, 1, 9.001},
                                                                       {"s", 1, 3, 4.002}});
}

TEST_CASE("merge: it tells how far it is, at the end that it is done") {
  const ScratchFolder scratch;
  const std::string text = trace("h1", 0, 0, 1);
  const auto a = scratch.write("a", text);
  const auto b = scratch.write("b", text);
  std::vector<std::uint64_t> told;
  const auto progress = [&](std::uint64_t done, std::uint64_t total) {
    CHECK(total == 2 * text.size());
    told.push_back(done);
  };
  REQUIRE(merge_traces({a, b}, scratch.file("out"), progress).ok());
  REQUIRE_FALSE(told.empty());
  CHECK(told.back() == 2 * text.size());
  CHECK(std::count(told.begin(), told.end(), told.back()) == 1);
}

TEST_CASE("merge: an output that is one of the traces is refused, and the trace stays") {
  const ScratchFolder scratch;
  const std::string text = trace("h1", 0, 0, 1);
  const auto a = scratch.write("a", text);
  const Status status = merge_traces({scratch.write("b", text), a}, a).status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message() == a + " is one of the traces, which the merged one would replace");
  CHECK(content_of(a) == text);
}

TEST_CASE("merge: an output that cannot be written is an error") {
  const ScratchFolder scratch;
  const auto a = scratch.write("a", trace("h1", 0, 0, 1));
  CHECK(merge_traces({a}, "/dev/null/folder/out").status().code() == Code::kUnavailable);
}

namespace {

/// The trace of a worker in one epoch: an allreduce of bundle 1, submitted at `submitted` us.
std::string worker_trace(int worker, int epoch, int rank, int submitted) {
  RecordingInfo info;
  info.rank = rank;
  info.worker = worker;
  info.epoch = epoch;
  info.boot_id = "h1";
  info.steady_start_ns = 1'000'000L * epoch;
  const std::string lane = fmt::format("\"pid\":{},\"tid\":1", worker);
  return fmt::format(
      "[\n{0},\n{{\"ph\":\"M\",{1},\"name\":\"thread_name\",\"args\":{{\"name\":\"allreduce.w\"}}}}"
      ",\n"
      "{{\"ph\":\"B\",{1},\"ts\":{2},\"name\":\"NEGOTIATE_ALLREDUCE\"}},\n"
      "{{\"ph\":\"E\",{1},\"ts\":50}},\n"
      "{{\"ph\":\"B\",{1},\"ts\":60,\"name\":\"ALLREDUCE\",\"args\":{{\"bundle\":1}}}},\n"
      "{{\"ph\":\"E\",{1},\"ts\":70}}\n]\n",
      format_header(info), lane, submitted);
}

/// Worker 1 in epochs 1 and 2, worker 2 in epoch 1, worker 3 in epoch 2.
std::vector<std::string> elastic_job(const ScratchFolder& scratch) {
  std::vector<std::string> traces = {scratch.write("w3e2", worker_trace(3, 2, 1, 20)),
                                     scratch.write("w1e2", worker_trace(1, 2, 0, 10)),
                                     scratch.write("w2e1", worker_trace(2, 1, 1, 10)),
                                     scratch.write("w1e1", worker_trace(1, 1, 0, 20))};
  RecordingInfo launcher;
  launcher.launcher = true;
  launcher.boot_id = "h1";
  traces.push_back(scratch.write(
      "epochs",
      fmt::format("[\n{},\n{{\"ph\":\"B\",\"pid\":{},\"tid\":1,\"ts\":900,\"name\":\"epoch "
                  "1\",\"args\":{{\"epoch\":1}}}}\n]\n",
                  format_header(launcher), kJobRow)));
  return traces;
}

struct Marks {
  std::vector<std::tuple<int, double, std::string>> ready;  ///< Row, time, name.
  std::vector<std::tuple<int, double>> arrows;              ///< Their ends.
};

Marks marks_of(const nlohmann::json& merged) {
  Marks marks;
  for (const auto& event : merged) {
    if (event["ph"] == "i") marks.ready.emplace_back(event["pid"], event["ts"], event["name"]);
    if (event["ph"] == "f") marks.arrows.emplace_back(event["pid"], event["ts"]);
  }
  return marks;
}

}  // namespace

TEST_CASE("merge: a worker has one row for all its epochs, whose bundles are not mixed up") {
  const ScratchFolder scratch;
  REQUIRE(merge_traces(elastic_job(scratch), scratch.file("out")).ok());
  const nlohmann::json merged = json_of(scratch.file("out"));
  CHECK(merged[0]["pid"] == kJobRow);
  std::vector<std::tuple<int, int>> order;
  for (const auto& event : merged) {
    if (event.value("name", "") == "recording" && event["pid"] != kJobRow) {
      order.emplace_back(event["pid"], event["args"]["epoch"]);
    }
  }
  CHECK(order == std::vector<std::tuple<int, int>>{{1, 1}, {1, 2}, {2, 1}, {3, 2}});
  const Marks marks = marks_of(merged);
  // The launcher's clock begins 1 ms before epoch 1, and 2 ms before epoch 2.
  CHECK(marks.ready == std::vector<std::tuple<int, double, std::string>>{
                           {1, 1010, "worker 2 ready"}, {1, 2020, "worker 3 ready"}});
  // In epoch 1 worker 1 was last, in epoch 2 worker 3.
  CHECK(marks.arrows == std::vector<std::tuple<int, double>>{{1, 2060.001}, {2, 1060.001}});
}

TEST_CASE("merge: a merged trace of an elastic job merges again to the same, in every format") {
  const ScratchFolder scratch;
  REQUIRE(merge_traces(elastic_job(scratch), scratch.file("out")).ok());
  REQUIRE(merge_traces({scratch.file("out")}, scratch.file("again")).ok());
  CHECK(content_of(scratch.file("out")) == content_of(scratch.file("again")));
  REQUIRE(merge_traces({scratch.file("out")}, scratch.file("out.pftrace")).ok());
  const std::string perfetto = content_of(scratch.file("out.pftrace"));
  CHECK(perfetto.find("epochs of the job") != std::string::npos);
  CHECK(perfetto.find("worker 1 (rank 0 in epoch 2") != std::string::npos);  // its last name alone
  CHECK(perfetto.find("worker 1 (rank 0 in epoch 1") == std::string::npos);
  REQUIRE(merge_traces({scratch.file("out")}, scratch.file("folder/")).ok());
  CHECK(std::filesystem::exists(scratch.file("folder/rank1.pt.trace.json")));
  CHECK_FALSE(
      std::filesystem::exists(scratch.file(fmt::format("folder/rank{}.pt.trace.json", kJobRow))));
}

}  // namespace ronde
