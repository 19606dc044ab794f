#include "bindings/cli/launch/messages.h"

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

namespace {

Frame frame_of(const std::string& bytes) {
  AgentFrameReader reader;
  reader.feed(bytes);
  return *reader.next().value();
}

}  // namespace

TEST_CASE("messages: what a job is comes back as it was sent") {
  StartMessage sent{
      "/tmp", {"a", "b c"}, "secret", {"X=1"}, {{3, {"RANK=3"}}, {4, {"RANK=4", "Y="}}}};
  sent.options.stdin_rank = 4;
  const Frame frame = frame_of(encode(sent));
  CHECK(frame.type == FrameType::kStart);
  const auto got = decode<StartMessage>(frame.payload);
  REQUIRE(got.ok());
  CHECK(got->directory == "/tmp");
  CHECK(got->command == sent.command);
  CHECK(got->secret == "secret");
  CHECK(got->environment == sent.environment);
  CHECK(got->options.stdin_rank == 4);
  REQUIRE(got->ranks.size() == 2);
  CHECK(got->ranks[1].rank == 4);
  CHECK(got->ranks[1].environment == sent.ranks[1].environment);
}

TEST_CASE("messages: every message cut short is refused") {
  const std::string payload =
      frame_of(encode(StartMessage{"/", {"x"}, "s", {}, {{0, {"A=b"}}}})).payload;
  for (std::size_t length = 0; length < payload.size(); ++length) {
    CHECK_FALSE(decode<StartMessage>(std::string_view(payload).substr(0, length)).ok());
  }
  CHECK_FALSE(decode<ProbeMessage>("").ok());
  CHECK_FALSE(decode<ProbedMessage>("abc").ok());
  CHECK_FALSE(decode<OutputMessage>("").ok());
  CHECK_FALSE(decode<CallMessage>("").ok());
  CHECK_FALSE(decode<AnswerMessage>("").ok());
  CHECK_FALSE(decode<RankMessage>("").ok());
  CHECK_FALSE(decode<CannotStartMessage>("").ok());
  CHECK_FALSE(decode<SignalMessage>("").ok());
  CHECK_FALSE(decode<ProcessExit>("").ok());
}

TEST_CASE("messages: reports of an agent come back as they were sent") {
  const auto output = decode<OutputMessage>(frame_of(encode(OutputMessage{2, 1, "x\n"})).payload);
  CHECK(output->rank == 2);
  CHECK(output->bytes == "x\n");
  const auto exited =
      decode<RankMessage>(frame_of(encode(RankMessage{1, 99, 9}, FrameType::kExited)).payload);
  CHECK(exited->pid == 99);
  CHECK(exited->wait_status == 9);
  CHECK(decode<SignalMessage>(frame_of(encode(SignalMessage{15})).payload)->signal == 15);
  const auto probed =
      decode<ProbedMessage>(frame_of(encode(ProbedMessage{"", "::1", 1, 2})).payload);
  CHECK(probed->address == "::1");
  CHECK(probed->master_port == 2);
  const auto ended =
      decode<ProcessExit>(frame_of(encode(ProcessExit{7, "h", "exited with status 1"})).payload);
  CHECK(ended->pid == 7);
  CHECK(ended->host == "h");
  CHECK(ended->text == "exited with status 1");
}

}  // namespace ronde
