#include "timeline/recording/trace_file.h"

#include <doctest/doctest.h>

#include "tests/timeline/read_json.h"
#include "timeline/reading/trace_reader.h"

namespace ronde {
namespace {

/// How many events a reader finds there.
std::size_t events_in(const std::string& path) {
  auto reader = TraceReader::open(path);
  REQUIRE(reader.ok());
  for (std::size_t events = 0;; ++events) {
    const auto event = reader->next();
    REQUIRE(event.ok());
    if (!event->has_value()) return events;
  }
}

}  // namespace

TEST_CASE("trace file: its folder is made") {
  const ScratchFolder scratch;
  const std::string path = scratch.file("not/there/yet/t.json");
  CHECK(TraceFile::open(path, "{}").ok());
  CHECK(content_of(path).starts_with("[\n{}"));
}

TEST_CASE("trace file: it is a whole array after every write") {
  const ScratchFolder scratch;
  auto file = TraceFile::open(scratch.file("t.json"), "{\"a\":1}");
  REQUIRE(file.ok());
  CHECK(json_of(scratch.file("t.json")).size() == 1);
  for (std::size_t i = 2; i <= 50; ++i) {
    REQUIRE(file->append(",\n{\"b\":2}").ok());
    CHECK(json_of(scratch.file("t.json")).size() == i);
  }
}

TEST_CASE("trace file: what is compressed is a whole array after every write") {
  const ScratchFolder scratch;
  const std::string path = scratch.file("t.json.gz");
  auto file = TraceFile::open(path, "{\"a\":1}");
  REQUIRE(file.ok());
  for (std::size_t i = 2; i <= 50; ++i) {
    REQUIRE(file->append(",\n{\"b\":2}").ok());
    CHECK(events_in(path) == i);
  }
  CHECK(content_of(path).substr(0, 2) == "\x1f\x8b");
}

TEST_CASE("trace file: what a kill leaves of a compressed file is read to the last write") {
  const ScratchFolder scratch;
  const std::string path = scratch.file("t.json.gz");
  auto file = TraceFile::open(path, "{\"a\":1}");
  REQUIRE(file.ok());
  for (int i = 0; i < 9; ++i) {
    REQUIRE(file->append(",\n{\"b\":" + std::to_string(i * 7919) + "}").ok());
  }
  const std::string before = content_of(path);
  REQUIRE(file->append(",\n{\"last\":0}").ok());
  const std::string whole = content_of(path);
  for (std::size_t length = before.size() - 20; length < whole.size(); ++length) {
    CAPTURE(length);
    const std::size_t events = events_in(scratch.write("cut.json.gz", whole.substr(0, length)));
    CHECK(events >= 10);
    CHECK(events <= 11);
  }
}

TEST_CASE("trace file: a path that cannot be written is named") {
  const auto file = TraceFile::open("/dev/null/folder/t.json", "{}");
  CHECK(file.status().message().find("/dev/null/folder/t.json: Not a directory") !=
        std::string::npos);
}

TEST_CASE("trace file: on a full disk it stays the array it was") {
  const ScratchFolder scratch;
  auto file = TraceFile::open(scratch.file("t.json"), "{\"a\":1}");
  REQUIRE(file.ok());
  {
    const SmallDisk disk(100);
    const Status status = file->append(",\n\"" + std::string(5000, 'x') + "\"");
    CHECK(status.code() == Code::kResourceExhausted);
  }
  CHECK(json_of(scratch.file("t.json")).size() == 1);
  CHECK(file->append(",\n{}").ok());
  CHECK(json_of(scratch.file("t.json")).size() == 2);
}

}  // namespace ronde
