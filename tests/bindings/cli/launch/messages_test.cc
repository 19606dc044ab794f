#include "bindings/cli/launch/messages.h"

#include <doctest/doctest.h>

#include "bindings/cli/launch/frame.h"

namespace ronde {
namespace {

Frame frame_of(const std::string& bytes) {
  AgentFrameReader reader;
  reader.feed(bytes);
  return *reader.next().value();
}

}  // namespace

TEST_CASE("messages: what a job is comes back as it was sent") {
  const StartMessage sent{
      "/tmp", {"a", "b c"}, "secret", {"X=1"}, {{3, {"RANK=3"}}, {4, {"RANK=4", "Y="}}}};
  const Frame frame = frame_of(encode(sent));
  CHECK(frame.type == FrameType::kStart);
  const auto got = decode_start(frame.payload);
  REQUIRE(got.ok());
  CHECK(got->directory == "/tmp");
  CHECK(got->command == sent.command);
  CHECK(got->secret == "secret");
  CHECK(got->environment == sent.environment);
  REQUIRE(got->ranks.size() == 2);
  CHECK(got->ranks[1].rank == 4);
  CHECK(got->ranks[1].environment == sent.ranks[1].environment);
}

TEST_CASE("messages: every message cut short is refused") {
  const std::string payload =
      frame_of(encode(StartMessage{"/", {"x"}, "s", {}, {{0, {"A=b"}}}})).payload;
  for (std::size_t length = 0; length < payload.size(); ++length) {
    CHECK_FALSE(decode_start(std::string_view(payload).substr(0, length)).ok());
  }
  CHECK_FALSE(decode_probe("").ok());
  CHECK_FALSE(decode_probed("abc").ok());
  CHECK_FALSE(decode_output("").ok());
  CHECK_FALSE(decode_rank("").ok());
  CHECK_FALSE(decode_cannot_start("").ok());
  CHECK_FALSE(decode_signal("").ok());
  CHECK_FALSE(decode_fate("").ok());
}

TEST_CASE("messages: reports of an agent come back as they were sent") {
  const auto output = decode_output(frame_of(encode(OutputMessage{2, 1, "x\n"})).payload);
  CHECK(output->rank == 2);
  CHECK(output->bytes == "x\n");
  const auto exited = decode_rank(frame_of(encode_exited({1, 99, 9})).payload);
  CHECK(exited->pid == 99);
  CHECK(exited->wait_status == 9);
  CHECK(*decode_signal(frame_of(encode_signal(15)).payload) == 15);
  const auto probed = decode_probed(frame_of(encode(ProbedMessage{"", "::1", 1, 2})).payload);
  CHECK(probed->address == "::1");
  CHECK(probed->master_port == 2);
  const auto fate = decode_fate(frame_of(encode(Fate{7, "h", "exited with status 1"})).payload);
  CHECK(fate->pid == 7);
  CHECK(fate->host == "h");
  CHECK(fate->text == "exited with status 1");
}

}  // namespace ronde
