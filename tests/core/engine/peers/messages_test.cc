#include "core/engine/peers/messages.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/core/engine/engine_parts.h"

namespace ronde {
namespace {

struct MessagesFixture : test::EngineParts {
  std::vector<std::byte> data{std::byte{1}, std::byte{2}};
  std::vector<std::byte> got{std::byte{0}, std::byte{0}};
};

}  // namespace

TEST_CASE_FIXTURE(MessagesFixture, "Messages: a short send is done once its frame is out") {
  const auto operation = messages.send(1, 5, data);
  CHECK_FALSE(operation->done());
  CHECK(tasks.run());
  CHECK(operation->done());
  CHECK(kinds_sent_to(1) == std::vector{EnginePart::kMessage});
  CHECK(meter.kind(kSendKind).ended_bytes.get() == 2);
  CHECK(records.pending().empty());
}

TEST_CASE_FIXTURE(MessagesFixture, "Messages: a receive ends with the message and its sender") {
  Message message;
  const auto receive = messages.recv(kAnySource, 5, got, &message);
  const auto send = messages.send(0, 5, data);  // to itself
  CHECK(tasks.run());
  REQUIRE(receive->done());
  CHECK(receive->status().ok());
  CHECK(got == data);
  CHECK(message.source == 0);
  CHECK(message.bytes == 2);
}

TEST_CASE_FIXTURE(MessagesFixture, "Messages: the end of one wakes a caller that sleeps") {
  const auto receive = messages.recv(1, 5, got, nullptr);
  CHECK(tasks.run());
  REQUIRE(role.may_sleep(Sleeper::kCaller));
  messages.on_left(1, Status(Code::kRankFailure, "rank 1 has left"));
  CHECK(receive->done());
  CHECK(channel.wakes(Sleeper::kCaller) == 1);
}

TEST_CASE_FIXTURE(MessagesFixture, "Messages: what needs a rank that left fails with its reason") {
  const auto receive = messages.recv(1, 5, got, nullptr);
  CHECK(tasks.run());
  messages.on_left(1, Status(Code::kRankFailure, "rank 1 has left"));
  REQUIRE(receive->done());
  CHECK(receive->status().message() == "rank 1 has left");
}

TEST_CASE_FIXTURE(MessagesFixture, "Messages: all fail with the job") {
  const auto receive = messages.recv(kAnySource, 5, got, nullptr);
  CHECK(tasks.run());
  messages.fail_all(Status(Code::kAborted, "the end"));
  REQUIRE(receive->done());
  CHECK(receive->status().code() == Code::kAborted);
}

TEST_CASE_FIXTURE(MessagesFixture, "Messages: a malformed frame is an error") {
  CHECK(messages.on_frame(1, data).code() == Code::kInvalidArgument);
}

}  // namespace ronde
