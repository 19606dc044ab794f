#include "core/engine/peers/messages.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "tests/core/engine/engine_parts.h"

namespace ronde {
namespace {

struct MessagesFixture : test::EngineParts {
  std::vector<std::byte> data{std::byte{1}, std::byte{2}};
  std::vector<std::byte> got{std::byte{0}, std::byte{0}};
};

/// Keeps the spans of messages.
class MessageSpans final : public EventSink {
 public:
  struct Span {
    std::string track;
    TimeSpan times;
    std::uint64_t bytes = 0;
  };
  void begin(std::string_view, std::string_view, const EventArgs&) override {}
  void end(std::string_view, const EventArgs&) override {}
  void instant(std::string_view, std::string_view) override {}
  void counter(std::string_view, double) override {}
  void span(std::string_view track, std::string_view, TimeSpan times,
            const EventArgs& args) override {
    spans.push_back({std::string(track), times, args.bytes});
  }

  std::vector<Span> spans;
};

/// Ranks whose frames are delivered by hand; messages of more than 8 bytes are long.
class Ranks {
 public:
  explicit Ranks(int ranks = 2) {
    for (int r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<Rank>(r, ranks));
  }
  Messages& operator[](int rank) { return at(rank).messages; }
  std::vector<MessageSpans::Span>& spans(int rank) { return at(rank).sink.spans; }

  /// Starts what was posted on one rank.
  bool start(int rank) { return at(rank).tasks.run(); }
  /// Delivers frames until none is left.
  void settle() {
    bool any = true;
    while (any) {
      any = false;
      for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
        any |= start(r);
        for (const auto& [to, bytes] : std::exchange(at(r).channel.sent, {})) {
          const auto payload = std::span(bytes).subspan(sizeof(FrameHeader));
          REQUIRE((*this)[to].on_frame(r, payload).ok());
          any = true;
        }
      }
    }
  }

 private:
  struct Rank : test::EngineParts {
    Rank(int rank, int ranks) : EngineParts(rank, ranks) { events.set(&sink); }
    MessageSpans sink;
    EventSwitch events;
    Messages messages{tasks, sender, &events, 8};
  };
  Rank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  std::vector<std::unique_ptr<Rank>> ranks_;
};

std::span<std::byte> writable(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), text.size()};
}

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

TEST_CASE("Messages: a short message arrives whether the receive came first or not") {
  for (const bool receive_first : {true, false}) {
    Ranks ranks;
    std::string buffer(5, ' ');
    Message message;
    const auto receive = [&] { return ranks[1].recv(0, 7, writable(buffer), &message); };
    OperationPtr received = receive_first ? receive() : nullptr;
    const auto sent = ranks[0].send(1, 7, as_bytes("hello"));
    ranks.settle();
    if (!receive_first) received = receive();
    ranks.settle();
    CHECK(sent->done());
    REQUIRE(received->done());
    CHECK(buffer == "hello");
    CHECK(message.source == 0);
    CHECK(message.tag == 7);
    CHECK(message.bytes == 5);
  }
}

TEST_CASE("Messages: a long message is pulled in chunks") {
  Ranks ranks;
  std::vector<std::byte> data(std::size_t{1200} << 10);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 % 251);
  std::vector<std::byte> buffer(data.size());
  const auto sent = ranks[0].send(1, 1, data);
  ranks.settle();
  CHECK_FALSE(sent->done());
  const auto received = ranks[1].recv(kAnySource, 1, buffer, nullptr);
  ranks.settle();
  CHECK(sent->done());
  CHECK(received->done());
  CHECK(buffer == data);
}

TEST_CASE("Messages: the timeline has their spans by peer, one after the other") {
  Ranks ranks;
  std::string buffers[2] = {std::string(2, ' '), std::string(20, ' ')};
  for (std::string& buffer : buffers) (void)ranks[1].recv(kAnySource, 1, writable(buffer), nullptr);
  for (const std::size_t bytes : {2UL, 20UL}) {  // sent at once, and pulled
    const std::string data(bytes, 'x');
    (void)ranks[0].send(1, 1, as_bytes(data));
    ranks.settle();
  }
  for (const int rank : {0, 1}) {
    const auto& spans = ranks.spans(rank);
    REQUIRE(spans.size() == 2);
    CHECK(spans[0].bytes == 2);
    CHECK(spans[1].bytes == 20);
    for (const auto& span : spans) {
      CHECK(span.track == (rank == 0 ? "send to rank 1" : "recv from rank 0"));
      CHECK(span.times.start_ns <= span.times.end_ns);
    }
    CHECK(spans[0].times.end_ns <= spans[1].times.start_ns);
  }
}

TEST_CASE("Messages: the timeline has none that failed") {
  Ranks ranks;
  std::string buffer(1, ' ');
  (void)ranks[1].recv(0, 1, writable(buffer), nullptr);
  (void)ranks[0].send(1, 1, as_bytes("too long"));
  ranks.settle();
  CHECK(ranks.spans(1).empty());
  CHECK(ranks.spans(0).size() == 1);
}

TEST_CASE("Messages: a receive of elements of another type fails and writes nothing") {
  for (const std::size_t bytes : {4UL, 16UL}) {  // sent at once, and pulled
    Ranks ranks;
    const std::string data(bytes, 'x');
    std::string buffer(bytes, ' ');
    const auto received = ranks[1].recv(0, 3, writable(buffer), nullptr, "int32");
    const auto sent = ranks[0].send(1, 3, as_bytes(data), "float32");
    ranks.settle();
    CHECK(sent->done());
    REQUIRE(received->done());
    CHECK(received->status().code() == Code::kMismatch);
    CHECK(received->status().message() ==
          "recv: rank 0 sent elements of type float32, but the memory to receive into is of int32; "
          "give both ranks the same type");
    CHECK(buffer == std::string(bytes, ' '));
  }
}

TEST_CASE("Messages: a message of a type may be received as one of any type") {
  Ranks ranks;
  std::string buffer(2, ' ');
  (void)ranks[1].recv(0, 3, writable(buffer), nullptr);
  (void)ranks[0].send(1, 3, as_bytes("ab"), "float32");
  ranks.settle();
  CHECK(buffer == "ab");
}

TEST_CASE("Messages: tags keep messages apart and order holds within a tag") {
  Ranks ranks;
  std::string first(1, ' ');
  std::string second(1, ' ');
  std::string other(1, ' ');
  for (const auto& [tag, text] : {std::pair{1, "a"}, {2, "x"}, {1, "b"}}) {
    (void)ranks[0].send(1, tag, as_bytes(text));
  }
  (void)ranks[1].recv(0, 1, writable(first), nullptr);
  (void)ranks[1].recv(0, 1, writable(second), nullptr);
  (void)ranks[1].recv(0, 2, writable(other), nullptr);
  ranks.settle();
  CHECK(first + second + other == "abx");
}

TEST_CASE("Messages: any source takes the first message, a named source waits for its own") {
  Ranks ranks(3);
  std::string named(1, ' ');
  std::string any(1, ' ');
  Message message;
  (void)ranks[0].recv(1, 0, writable(named), nullptr);
  (void)ranks[0].recv(kAnySource, 0, writable(any), &message);
  (void)ranks[2].send(0, 0, as_bytes("2"));
  ranks.settle();
  (void)ranks[1].send(0, 0, as_bytes("1"));
  ranks.settle();
  CHECK(named == "1");
  CHECK(any == "2");
  CHECK(message.source == 2);
}

TEST_CASE("Messages: a message too long for its buffer is an error with both lengths") {
  for (const std::size_t length : {std::size_t{6}, std::size_t{100}}) {  // short and announced
    Ranks ranks;
    const std::string text(length, 'x');
    std::string buffer(3, ' ');
    const auto received = ranks[1].recv(0, 0, writable(buffer), nullptr);
    const auto sent = ranks[0].send(1, 0, as_bytes(text));
    ranks.settle();
    REQUIRE(received->done());
    CHECK(received->status().code() == Code::kInvalidArgument);
    CHECK(received->status().message().find("only 3") != std::string::npos);
    CHECK(sent->done());
  }
}

TEST_CASE("Messages: a rank can send to itself") {
  Ranks ranks(1);
  std::string buffer(2, ' ');
  (void)ranks[0].send(0, 4, as_bytes("me"));
  (void)ranks[0].recv(0, 4, writable(buffer), nullptr);
  ranks.settle();
  CHECK(buffer == "me");
}

TEST_CASE("Messages: what needs a rank that left fails, the rest waits on") {
  Ranks ranks(3);
  std::string buffer(1, ' ');
  const std::string text(50, 'x');
  const auto from_left = ranks[0].recv(1, 0, writable(buffer), nullptr);
  const auto from_any = ranks[0].recv(kAnySource, 0, writable(buffer), nullptr);
  const auto to_left = ranks[0].send(1, 0, as_bytes(text));
  ranks.start(0);
  ranks[0].on_left(1, Status(Code::kRankFailure, "rank 1 has left the job"));
  CHECK(from_left->status().code() == Code::kRankFailure);
  CHECK(to_left->status().code() == Code::kRankFailure);
  CHECK_FALSE(from_any->done());
}

TEST_CASE("Messages: a receive that comes after its sender has left ends at once") {
  Ranks ranks(3);
  std::string buffer(20, ' ');
  const std::string text(20, 'x');
  const auto whole = ranks[1].send(0, 1, as_bytes("whole"));
  const auto announced = ranks[1].send(0, 2, as_bytes(text));
  ranks.settle();
  ranks[0].on_left(1, Status(Code::kRankFailure, "rank 1 has left the job"));

  Message message;
  const auto sent = ranks[0].recv(1, 1, writable(buffer), &message);
  const auto kept_by_sender = ranks[0].recv(1, 2, writable(buffer), nullptr);
  const auto never_sent = ranks[0].recv(1, 3, writable(buffer), nullptr);
  const auto from_any = ranks[0].recv(kAnySource, 3, writable(buffer), nullptr);
  ranks.start(0);
  CHECK(sent->status().ok());
  CHECK(message.bytes == 5);
  CHECK(kept_by_sender->status().message() == "rank 1 has left the job");
  CHECK(never_sent->status().code() == Code::kRankFailure);
  CHECK_FALSE(from_any->done());

  ranks[0].on_left(2, Status(Code::kRankFailure, "rank 2 has left the job"));
  REQUIRE(from_any->done());
  CHECK(from_any->status().message() == "rank 2 has left the job");
  const auto late = ranks[0].recv(kAnySource, 3, writable(buffer), nullptr);
  ranks.start(0);
  CHECK(late->status().code() == Code::kRankFailure);
}

TEST_CASE("Messages: frames that make no sense are refused") {
  Ranks ranks;
  CHECK_FALSE(ranks[0].on_frame(1, {}).ok());
  std::vector<std::byte> zeros(40);
  CHECK_FALSE(ranks[0].on_frame(1, zeros).ok());
  zeros[0] = std::byte{3};  // asks for a message that was never announced
  CHECK_FALSE(ranks[0].on_frame(1, zeros).ok());
  zeros[0] = std::byte{4};  // data nobody asked for
  CHECK_FALSE(ranks[0].on_frame(1, zeros).ok());
}

}  // namespace ronde
