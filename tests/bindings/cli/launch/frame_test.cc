#include "bindings/cli/launch/frame.h"

#include <doctest/doctest.h>

#include <limits>

namespace ronde {

TEST_CASE("frame: frames come out whole however the bytes are cut") {
  const std::string bytes = encode_frame(FrameType::kOutput, "hello") +
                            encode_frame(FrameType::kSignal, "") +
                            encode_frame(FrameType::kExited, std::string(70000, 'x'));
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{3}, std::size_t{4096}, bytes.size()}) {
    AgentFrameReader reader;
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.feed(std::string_view(bytes).substr(at, piece));
      for (auto next = reader.next(); next.ok() && next->has_value(); next = reader.next()) {
        frames.push_back(**next);
      }
    }
    REQUIRE(frames.size() == 3);
    CHECK(frames[0].payload == "hello");
    CHECK(frames[1].type == FrameType::kSignal);
    CHECK(frames[2].payload.size() == 70000);
  }
}

TEST_CASE("frame: an absurd length is an error, not an allocation") {
  AgentFrameReader reader;
  reader.feed(std::string("\x01\xff\xff\xff\xff", 5));
  CHECK_FALSE(reader.next().ok());
}

TEST_CASE("frame: fields come back as they were written") {
  FieldWriter writer;
  writer.number(-7).text("").text(std::string("a\0b", 3)).texts({"x", "", "yz"});
  FieldReader reader(writer.bytes());
  CHECK(reader.number() == -7);
  CHECK(reader.text().empty());
  CHECK(reader.text() == std::string("a\0b", 3));
  CHECK(reader.texts() == std::vector<std::string>{"x", "", "yz"});
  CHECK(reader.ok());
}

TEST_CASE("frame: a field cut short or with a false length is noticed") {
  FieldWriter writer;
  writer.text("hello");
  for (std::size_t length = 0; length < writer.bytes().size(); ++length) {
    FieldReader reader(std::string_view(writer.bytes()).substr(0, length));
    CHECK(reader.text().empty());
    CHECK_FALSE(reader.ok());
  }
  FieldWriter huge;
  huge.number(std::numeric_limits<std::int64_t>::max());
  FieldReader reader(huge.bytes());
  CHECK(reader.texts().size() <= 1);
  CHECK_FALSE(reader.ok());
}

}  // namespace ronde
