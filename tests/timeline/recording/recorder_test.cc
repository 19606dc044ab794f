#include "timeline/recording/recorder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "tests/timeline/read_json.h"
#include "timeline/recording/trace_format.h"

namespace ronde {
namespace {

Topology two_ranks() { return {0, {{0, "alpha", 1}, {1, "beta", 2}}}; }

std::size_t count(const nlohmann::json& trace, const std::string& phase) {
  return static_cast<std::size_t>(std::count_if(
      trace.begin(), trace.end(), [&](const auto& event) { return event["ph"] == phase; }));
}

}  // namespace

TEST_CASE("recorder: what was reported is in the file when it is closed") {
  const ScratchFolder scratch;
  auto recorder = Recorder::open(scratch.file("t.json"), 1, two_ranks(), {});
  REQUIRE(recorder.ok());
  (*recorder)->begin("allreduce.w", "NEGOTIATE_ALLREDUCE", {});
  (*recorder)->end("allreduce.w", {});
  (*recorder)->begin("allreduce.w", "ALLREDUCE",
                     {.bytes = 4, .algorithm = "ring", .backend = "tcp", .tensors = 1});
  (*recorder)->end("allreduce.w", {});
  (*recorder)->instant("allreduce.w", "fused");
  (*recorder)->counter("queued", 3);
  CHECK((*recorder)->close().ok());
  (*recorder)->instant("late", "ignored");
  CHECK((*recorder)->close().ok());
  const nlohmann::json trace = json_of(scratch.file("t.rank1.json"));
  CHECK(trace[0]["args"]["name"] == "rank 1 (beta)");
  CHECK(count(trace, "B") == 2);
  CHECK(count(trace, "E") == 2);
  CHECK(count(trace, "i") == 1);
  CHECK(count(trace, "C") == 1);
}

TEST_CASE("recorder: times within a trace never run backwards") {
  const ScratchFolder scratch;
  auto recorder = Recorder::open(scratch.file("t.json"), 0, two_ranks(), {});
  REQUIRE(recorder.ok());
  for (int i = 0; i < 100; ++i) (*recorder)->instant("track", "tick");
  CHECK((*recorder)->close().ok());
  double last = 0;
  for (const auto& event : json_of(scratch.file("t.rank0.json"))) {
    if (event["ph"] != "i") continue;
    CHECK(event["ts"].get<double>() >= last);
    last = event["ts"].get<double>();
  }
  CHECK(last > 0);
}

TEST_CASE("recorder: a flood from many threads is written or counted, and stays valid") {
  const ScratchFolder scratch;
  auto recorder = Recorder::open(scratch.file("t.json"), 0, two_ranks(), {});
  REQUIRE(recorder.ok());
  constexpr std::size_t kEach = 30000;
  std::vector<std::thread> threads;
  threads.reserve(2);
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, track = "track" + std::to_string(thread)] {
      for (std::size_t i = 0; i < kEach; ++i) (*recorder)->instant(track, "tick");
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK((*recorder)->close().ok());
  std::size_t ticks = 0;
  const nlohmann::json trace = json_of(scratch.file("t.rank0.json"));
  for (const auto& event : trace) ticks += event.value("name", "") == "tick" ? 1U : 0U;
  CHECK(ticks + (*recorder)->dropped() == 2 * kEach);
  CHECK(ticks > 0);
}

TEST_CASE("recorder: the file of a rank killed with signal 9 is a whole array") {
  const ScratchFolder scratch;
  const std::string path = scratch.file("t.rank0.json");
  const pid_t child = ::fork();
  if (child == 0) {
    auto recorder = Recorder::open(scratch.file("t.json"), 0, two_ranks(), {});
    (*recorder)->begin("allreduce.w", "NEGOTIATE_ALLREDUCE", {});
    for (;;) ::pause();
  }
  for (int i = 0; i < 6000 && content_of(path).find("NEGOTIATE") == std::string::npos; ++i) {
    ::usleep(10'000);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const nlohmann::json trace = json_of(path);
  REQUIRE(trace.is_array());
  CHECK(trace.back()["name"] == "NEGOTIATE_ALLREDUCE");
}

TEST_CASE("recorder: a path that cannot be written is an error at once") {
  const auto recorder = Recorder::open("/dev/null/folder/t.json", 0, two_ranks(), {});
  CHECK(recorder.status().message().find("t.rank0.json") != std::string::npos);
}

TEST_CASE(
    "recorder: a full disk ends the recording with its reason, and later events are ignored") {
  const ScratchFolder scratch;
  auto recorder = Recorder::open(scratch.file("t.json"), 0, two_ranks(), {});
  REQUIRE(recorder.ok());
  const std::string before = content_of(scratch.file("t.rank0.json"));
  {
    const SmallDisk disk(before.size() + 100);
    for (int i = 0; i < 100; ++i) (*recorder)->instant("track", "tick");
    CHECK((*recorder)->close().code() == Code::kResourceExhausted);
  }
  (*recorder)->instant("track", "late");
  CHECK(content_of(scratch.file("t.rank0.json")) == before);
}

TEST_CASE("recorder: counters are written when they change") {
  const ScratchFolder scratch;
  std::atomic<int> asked{0};
  const auto counters = [&]() -> std::vector<CounterSample> {
    return {{"steady", 1.0}, {"rising", static_cast<double>(++asked)}};
  };
  auto recorder = Recorder::open(scratch.file("t.json"), 0, two_ranks(),
                                 {.about = {.job = "job"}, .counters = counters});
  REQUIRE(recorder.ok());
  while (asked < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK((*recorder)->close().ok());
  std::size_t steady = 0;
  std::size_t rising = 0;
  for (const auto& event : json_of(scratch.file("t.rank0.json"))) {
    if (event["ph"] != "C") continue;
    (event["name"] == "steady" ? steady : rising) += 1;
  }
  CHECK(steady == 1);
  CHECK(rising >= 3);
}

TEST_CASE("recorder: a span that is over has the times it was given, and its facts") {
  const ScratchFolder scratch;
  auto recorder = Recorder::open(scratch.file("t.json"), 0, two_ranks(), {});
  REQUIRE(recorder.ok());
  const std::int64_t start_ns = steady_ns() - 5'000'000;
  (*recorder)->span("gpu", "nccl", {start_ns, start_ns + 2'000'000}, {.bundle = 9});
  CHECK((*recorder)->close().ok());
  const nlohmann::json trace = json_of(scratch.file("t.rank0.json"));
  const nlohmann::json& begin = trace[trace.size() - 2];
  const nlohmann::json& end = trace.back();
  CHECK(begin["ph"] == "B");
  CHECK(begin["name"] == "nccl");
  CHECK(begin["args"]["bundle"] == 9);
  CHECK(end["ph"] == "E");
  CHECK_FALSE(end.contains("args"));
  CHECK(end["tid"] == begin["tid"]);
  CHECK(end["ts"].get<double>() - begin["ts"].get<double>() == doctest::Approx(2000));
}

TEST_CASE("recorder: the last counters are asked for once, when all else is written") {
  const ScratchFolder scratch;
  int asked = 0;
  const auto last = [&asked]() -> std::vector<CounterSample> {
    ++asked;
    return {{"copy", 4.5}, {"coding", 0.25}};
  };
  auto recorder = Recorder::open(scratch.file("t.json"), 0, two_ranks(),
                                 {.about = {.job = "job"}, .last_counters = last});
  REQUIRE(recorder.ok());
  (*recorder)->instant("track", "tick");
  CHECK(asked == 0);
  CHECK((*recorder)->close().ok());
  CHECK((*recorder)->close().ok());
  CHECK(asked == 1);
  const nlohmann::json trace = json_of(scratch.file("t.rank0.json"));
  REQUIRE(trace.size() > 3);
  CHECK(trace[trace.size() - 3]["name"] == "tick");
  CHECK(trace[trace.size() - 2]["args"]["value"] == 4.5);
  CHECK(trace.back()["name"] == "coding");
}

TEST_CASE("recorder: what tensors of a bundle have in common is one event, and a line for each") {
  const ScratchFolder scratch;
  auto recorder = Recorder::open(scratch.file("t.json"), 0, two_ranks(), {});
  REQUIRE(recorder.ok());
  const std::vector<std::string_view> tracks{"allreduce.a", "allreduce.b", "allreduce.c"};
  const std::int64_t agreed_ns = steady_ns();
  for (const std::string_view track : tracks) {
    (*recorder)->begin(track, "NEGOTIATE_ALLREDUCE", {.at_ns = agreed_ns - 1'000'000});
  }
  (*recorder)->end_all(tracks, {.at_ns = agreed_ns});
  (*recorder)->begin_all(tracks, "ALLREDUCE", {.bytes = 12, .tensors = 3, .bundle = 4});
  (*recorder)->end_all({tracks.data(), 1}, {.pack_ns = 1000});
  (*recorder)->end_all({}, {});
  CHECK((*recorder)->close().ok());
  const nlohmann::json trace = json_of(scratch.file("t.rank0.json"));
  CHECK(count(trace, "B") == 6);
  CHECK(count(trace, "E") == 4);
  std::vector<nlohmann::json> runs;
  std::vector<double> agreed;
  for (const auto& event : trace) {
    if (event.value("name", "") == "ALLREDUCE") runs.push_back(event);
    if (event["ph"] == "E" && !event.contains("args")) agreed.push_back(event["ts"]);
  }
  REQUIRE(runs.size() == 3);
  CHECK(runs[0]["args"] == runs[2]["args"]);
  CHECK(runs[0]["tid"] != runs[2]["tid"]);
  CHECK(agreed == std::vector<double>(3, agreed.front()));
}

TEST_CASE("recorder: a pause ends the spans that are open, and says so") {
  const ScratchFolder scratch;
  auto recorder = Recorder::open(scratch.file("t.json"), 0, two_ranks(), {});
  REQUIRE(recorder.ok());
  (*recorder)->begin("allreduce.w", "ALLREDUCE", {});
  (*recorder)->pause();
  const std::string path = scratch.file("t.rank0.json");
  (*recorder)->resume();                // before anything is written
  (*recorder)->end("allreduce.w", {});  // of what was begun before
  CHECK((*recorder)->close().ok());
  const nlohmann::json trace = json_of(path);
  const std::string text = content_of(path);
  CHECK(text.find(kPauseMark) < text.find(kResumeMark));
  CHECK(text.find(kResumeMark) != std::string::npos);
  CHECK(count(trace, "B") == 1);
  CHECK(count(trace, "E") == 1);
}

TEST_CASE("recorder: a trace goes on in new files, of which the newest are kept") {
  const ScratchFolder scratch;
  const std::string asked = scratch.file("t.json");
  scratch.write("t.rank0.part0042.json", "of an older recording");
  auto recorder =
      Recorder::open(asked, 0, two_ranks(),
                     {.about = {.job = "job"}, .chunk_bytes = std::size_t{20'000}, .parts = 3});
  REQUIRE(recorder.ok());
  const std::string first = trace_part_path(rank_trace_path(asked, 0), 1);
  const auto rotated = [&] {
    return trace_files(rank_trace_path(asked, 0)).size() == 3 && !std::filesystem::exists(first);
  };
  const TimePoint end = now() + std::chrono::seconds(60);
  while (!rotated() && now() < end) {
    for (int k = 0; k < 200; ++k) (*recorder)->instant(k % 2 == 0 ? "even" : "odd", "tick");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK((*recorder)->close().ok());
  const std::vector<std::string> files = trace_files(rank_trace_path(asked, 0));
  REQUIRE(files.size() == 3);
  CHECK(files.back() == (*recorder)->path());
  int part = 0;
  double last = 0;
  for (const std::string& file : files) {
    const nlohmann::json trace = json_of(file);
    CHECK(trace[2]["args"]["part"].get<int>() > part);
    part = trace[2]["args"]["part"];
    bool named = false;
    for (const auto& event : trace) {
      named = named || (event["name"] == "thread_name" && event["args"]["name"] == "odd");
      if (event["name"] != "tick") continue;  // that events were lost is said at any time
      CHECK(event["ts"].get<double>() >= last);
      last = event["ts"];
    }
    CHECK(named);
  }
}

TEST_CASE("recorder: a worker's epochs have files of their own, whose tracks are numbered alike") {
  const ScratchFolder scratch;
  const auto tracks = std::make_shared<TrackNumbers>();
  const auto record = [&](int rank, int epoch, std::initializer_list<const char*> names) {
    auto recorder =
        Recorder::open(scratch.file("t.json"), rank, two_ranks(),
                       {.about = {.job = "job", .worker = 7, .epoch = epoch}, .tracks = tracks});
    REQUIRE(recorder.ok());
    for (const char* name : names) (*recorder)->begin(name, "ALLREDUCE", {});
    CHECK((*recorder)->close().ok());
    return json_of(scratch.file(fmt::format("t.worker7.epoch{}.json", epoch)));
  };
  const auto number_of = [](const nlohmann::json& trace, const std::string& name) {
    for (const auto& event : trace) {
      if (event.value("name", "") == "thread_name" && event["args"]["name"] == name)
        return event["tid"];
    }
    return nlohmann::json();
  };
  const nlohmann::json first = record(1, 1, {"allreduce.a", "allreduce.b"});
  const nlohmann::json second = record(0, 2, {"allreduce.b", "allreduce.c"});
  CHECK(number_of(first, "allreduce.b") == number_of(second, "allreduce.b"));
  CHECK(number_of(first, "allreduce.a") != number_of(second, "allreduce.c"));
  for (const nlohmann::json& trace : {first, second}) {
    CHECK(count(trace, "B") == count(trace, "E"));  // what was open has ended with the epoch
    for (const auto& event : trace) CHECK(event["pid"] == 7);
  }
}

}  // namespace ronde
