#include "timeline/trace_file.h"

#include <doctest/doctest.h>

#include "tests/timeline/read_json.h"

namespace ronde {
TEST_CASE("trace file: each rank's name is made from the one asked for") {
  CHECK(rank_trace_path("trace.json", 3) == "trace.rank3.json");
  CHECK(rank_trace_path("/a.b/trace", 0) == "/a.b/trace.rank0");
  CHECK(rank_trace_path("x/my.trace.json", 12) == "x/my.trace.rank12.json");
}

TEST_CASE("trace file: it is a whole array after every write") {
  const Scratch scratch;
  auto file = TraceFile::open(scratch.file("t.json"), "{\"a\":1}");
  REQUIRE(file.ok());
  CHECK(json_of(scratch.file("t.json")).size() == 1);
  for (std::size_t i = 2; i <= 50; ++i) {
    REQUIRE(file->append(",\n{\"b\":2}").ok());
    CHECK(json_of(scratch.file("t.json")).size() == i);
  }
}

TEST_CASE("trace file: a path that cannot be written is named") {
  const auto file = TraceFile::open("/no/such/directory/t.json", "{}");
  CHECK(file.status().message().find("/no/such/directory/t.json: No such file") !=
        std::string::npos);
}

TEST_CASE("trace file: on a full disk it stays the array it was") {
  const Scratch scratch;
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
