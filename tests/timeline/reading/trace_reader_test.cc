#include "timeline/reading/trace_reader.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

struct Read {
  std::vector<std::string> events;
  Status status;
  bool truncated = false;
};

Read read(std::string_view text) {
  const ScratchFolder scratch;
  Read result;
  auto reader = TraceReader::open(scratch.write("t.json", text));
  REQUIRE(reader.ok());
  for (;;) {
    auto event = reader->next();
    if (!event.ok()) result.status = event.status();
    if (!event.ok() || !event->has_value()) break;
    result.events.emplace_back((*event)->text);
  }
  result.truncated = reader->truncated();
  return result;
}

}  // namespace

TEST_CASE("trace reader: of a trace in Perfetto's format it says what is to be given instead") {
  const ScratchFolder scratch;
  const auto reader = TraceReader::open(scratch.write("t.pftrace.gz", "\x0a"));
  REQUIRE_FALSE(reader.ok());
  CHECK(reader.status().message().find("t.rank0.json.gz") != std::string::npos);
}

TEST_CASE("trace reader: an array gives its events, whatever is in their strings") {
  const Read got = read("[ {\"a\":\"}{\\\"]\"},\n{\"b\":{\"c\":[1]}} ]\n");
  CHECK(got.status.ok());
  REQUIRE(got.events.size() == 2);
  CHECK(got.events[0] == "{\"a\":\"}{\\\"]\"}");
  CHECK(got.events[1] == "{\"b\":{\"c\":[1]}}");
  CHECK_FALSE(got.truncated);
}

TEST_CASE("trace reader: an object gives its traceEvents, wherever they stand") {
  const Read got = read(
      "{\"version\": 1, \"meta\": {\"x\": [\"}\", 2]}, \"s\":\"a,b\", \"traceEvents\": "
      "[{\"a\":1}], "
      "\"z\": 1}");
  CHECK(got.status.ok());
  CHECK(got.events.size() == 1);
}

TEST_CASE("trace reader: a file whose end is missing gives what is whole") {
  const std::string whole = "[\n{\"a\":1},\n{\"b\":\"x\"}\n]\n";
  for (std::size_t length = 1; length < whole.size() - 2; ++length) {
    CAPTURE(length);
    const Read got = read(whole.substr(0, length));
    CHECK(got.status.ok());
    CHECK(got.truncated);
    CHECK(got.events.size() == (length >= 20 ? 2 : length >= 9 ? 1 : 0));
  }
}

TEST_CASE("trace reader: what is no trace is refused with file and byte") {
  for (const auto& [text, byte] :
       std::vector<std::pair<std::string, std::string>>{{"", "byte 0"},
                                                        {"hello", "byte 0"},
                                                        {"[{\"a\":1} x]", "byte 9"},
                                                        {"{\"a\":1}", "byte 6"},
                                                        {"{\"traceEvents\": 3}", "byte 16"}}) {
    const std::string message = read(text).status.message();
    CAPTURE(message);
    CHECK(message.find(byte) != std::string::npos);
    CHECK(message.find("t.json") != std::string::npos);
  }
}

TEST_CASE("trace reader: events longer than its buffer come whole, at their bytes") {
  std::string text = "[\n";
  std::vector<std::string> events;
  for (const std::size_t length : {10U, 300'000U, 5U, 2'000'000U, 262'100U, 40U}) {
    events.push_back("{\"a\":\"" + std::string(length, '\\') + std::string(length, '"') + "\"}");
    std::string& event = events.back();
    for (std::size_t i = 6; i < 6 + 2 * length; ++i) event[i] = i % 2 == 0 ? '\\' : '"';
  }
  for (const std::string& event : events) text += (&event == &events[0] ? "" : ",\n") + event;
  const Read got = read(text + "]");
  CHECK(got.status.ok());
  CHECK(got.events == events);
}

TEST_CASE("trace reader: it goes on with the first whole line after a byte") {
  const ScratchFolder scratch;
  std::string text = "[\n{\"i\":0}";
  for (int i = 1; i < 100'000; ++i) text += ",\n{\"i\":" + std::to_string(i) + "}";
  auto reader = TraceReader::open(scratch.write("t.json", text + "\n]\n"));
  REQUIRE(reader.ok());
  REQUIRE(reader->next().ok());
  REQUIRE(reader->can_skip());
  reader->skip_to(text.size() - 20);
  auto event = reader->next();
  REQUIRE(event.ok());
  REQUIRE(event->has_value());
  CHECK((*event)->text == "{\"i\":99999}");
  CHECK((*event)->offset == text.size() - 11);
  CHECK_FALSE(reader->next()->has_value());
  CHECK_FALSE(reader->truncated());
}

TEST_CASE("trace reader: a file that is not there is named") {
  CHECK(TraceReader::open("/no/such.json")
            .status()
            .message()
            .find("/no/such.json: No such file or directory") != std::string::npos);
}

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

using Told = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

std::string file_of(const std::string& path, std::uint64_t bytes) {
  std::ofstream(path).flush();
  std::filesystem::resize_file(path, bytes);
  return path;
}

TEST_CASE("ProgressTeller: tells every 16 MiB over all files, and at the end, once") {
  const ScratchFolder scratch;
  const auto a = file_of(scratch.file("a"), 30 * kMiB);
  const auto b = file_of(scratch.file("b"), 10 * kMiB);
  Told told;
  const ReadProgress progress = [&](std::uint64_t done, std::uint64_t total) {
    told.emplace_back(done, total);
  };
  ProgressTeller teller({a, b}, progress);
  for (std::uint64_t mib = 1; mib <= 30; ++mib) teller.tell(mib * kMiB);
  teller.end(30 * kMiB);
  CHECK(told == Told{{16 * kMiB, 40 * kMiB}});
  teller.tell(3 * kMiB);
  teller.end(10 * kMiB);
  teller.tell(0);
  CHECK(told == Told{{16 * kMiB, 40 * kMiB}, {33 * kMiB, 40 * kMiB}, {40 * kMiB, 40 * kMiB}});
}

TEST_CASE("ProgressTeller: nobody need listen, and a file that is not there counts nothing") {
  const ScratchFolder scratch;
  CHECK(bytes_of(scratch.file("none")) == 0);
  const ReadProgress nobody;
  ProgressTeller teller({scratch.file("none")}, nobody);
  teller.end(kMiB);
}

}  // namespace

}  // namespace ronde
