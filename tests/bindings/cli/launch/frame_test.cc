#include "bindings/cli/launch/frame.h"

#include <doctest/doctest.h>

#include <vector>

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

}  // namespace ronde
