#include "bindings/cli/launch/messages.h"

#include <doctest/doctest.h>

#include <vector>

namespace ronde {

namespace {

template <typename T>
T sent_and_read(const T& message) {
  MessageReader reader;
  reader.feed(encode(message));
  return std::get<T>(reader.next().value().value());
}

/// A frame of the message's kind with another payload.
template <typename T>
std::string frame_with(const T& message, const std::string& payload) {
  WireWriter<std::string> writer;
  writer(static_cast<std::uint8_t>(encode(message).front()), payload);
  return writer.take();
}

template <typename T>
bool is_refused(const T& message, const std::string& payload) {
  MessageReader reader;
  reader.feed(frame_with(message, payload));
  return !reader.next().ok();
}

}  // namespace

TEST_CASE("frame: messages come out whole however the bytes are cut") {
  const std::string bytes = encode(OutputMessage{1, 2, "hello"}) + encode(SignalMessage{15}) +
                            encode(PingMessage()) + encode(CallMessage{std::string(70000, 'x')});
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{3}, std::size_t{4096}, bytes.size()}) {
    MessageReader reader;
    std::vector<AgentMessage> messages;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.feed(std::string_view(bytes).substr(at, piece));
      for (auto next = reader.next(); next.ok() && next->has_value(); next = reader.next()) {
        messages.push_back(**next);
      }
    }
    REQUIRE(messages.size() == 4);
    CHECK(std::get<OutputMessage>(messages[0]).bytes == "hello");
    CHECK(std::get<SignalMessage>(messages[1]).signal == 15);
    CHECK(std::holds_alternative<PingMessage>(messages[2]));
    CHECK(std::get<CallMessage>(messages[3]).bytes.size() == 70000);
  }
}

TEST_CASE("frame: an absurd length is an error, not an allocation") {
  MessageReader reader;
  reader.feed(std::string("\x01\xff\xff\xff\xff", 5));
  CHECK_FALSE(reader.next().ok());
}

TEST_CASE("frame: an unknown kind is an error") {
  MessageReader reader;
  reader.feed(std::string("\xfe\0\0\0\0", 5));
  CHECK_FALSE(reader.next().ok());
}

TEST_CASE("messages: what a job is comes back as it was sent") {
  StartMessage sent{
      "/tmp", {"a", "b c"}, "secret", {"X=1"}, {{3, {"RANK=3"}}, {4, {"RANK=4", "Y="}}}};
  sent.options.stdin_rank = 4;
  const StartMessage got = sent_and_read(sent);
  CHECK(got.directory == "/tmp");
  CHECK(got.command == sent.command);
  CHECK(got.secret == "secret");
  CHECK(got.environment == sent.environment);
  CHECK(got.options.stdin_rank == 4);
  REQUIRE(got.ranks.size() == 2);
  CHECK(got.ranks[1].rank == 4);
  CHECK(got.ranks[1].environment == sent.ranks[1].environment);
}

TEST_CASE("messages: every message cut short is refused") {
  const StartMessage start{"/", {"x"}, "s", {}, {{0, {"A=b"}}}};
  const std::string payload = encode(start).substr(kFrameHeaderBytes);
  for (std::size_t length = 0; length < payload.size(); ++length) {
    CHECK(is_refused(start, payload.substr(0, length)));
  }
  CHECK(is_refused(ProbeMessage(), ""));
  CHECK(is_refused(ProbedMessage(), "abc"));
  CHECK(is_refused(OutputMessage(), ""));
  CHECK(is_refused(CallMessage(), ""));
  CHECK(is_refused(AnswerMessage(), ""));
  CHECK(is_refused(StartedMessage(), ""));
  CHECK(is_refused(ExitedMessage(), ""));
  CHECK(is_refused(CannotStartMessage(), ""));
  CHECK(is_refused(SignalMessage(), ""));
  CHECK(is_refused(ProcessExit(), ""));
  CHECK(is_refused(PingMessage(), "x"));
}

TEST_CASE("messages: reports of an agent come back as they were sent") {
  const OutputMessage output = sent_and_read(OutputMessage{2, 1, "x\n"});
  CHECK(output.rank == 2);
  CHECK(output.bytes == "x\n");
  const ExitedMessage exited = sent_and_read(ExitedMessage{1, 99, 9});
  CHECK(exited.pid == 99);
  CHECK(exited.wait_status == 9);
  const ProbedMessage probed = sent_and_read(ProbedMessage{"", "::1", 1, 2});
  CHECK(probed.address == "::1");
  CHECK(probed.master_port == 2);
  const ProcessExit ended = sent_and_read(ProcessExit{7, "h", "exited with status 1"});
  CHECK(ended.pid == 7);
  CHECK(ended.host == "h");
  CHECK(ended.text == "exited with status 1");
}

}  // namespace ronde
