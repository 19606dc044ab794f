#include "core/engine/peers/point_to_point.h"

#include <doctest/doctest.h>

#include <numeric>

#include "core/base/bytes.h"

namespace ronde {
namespace {

/// Ranks whose frames are delivered by hand.
class Pair {
 public:
  explicit Pair(int ranks = 2) {
    for (int r = 0; r < ranks; ++r) peers_.emplace_back(r, 8);
  }
  PointToPoint& operator[](int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  /// Delivers frames until none is left and finishes what has ended.
  void settle() {
    bool any = true;
    while (any) {
      any = false;
      for (int r = 0; r < static_cast<int>(peers_.size()); ++r) {
        std::vector<OutFrame> frames;
        (*this)[r].take_frames(frames);
        for (const OutFrame& frame : frames) {
          REQUIRE((*this)[frame.to].on_frame(r, frame.bytes).ok());
          any = true;
        }
        std::vector<FinishedMessage> ended;
        (*this)[r].take_finished(ended);
        for (FinishedMessage& message : ended) message.operation->finish(message.status);
      }
    }
  }

 private:
  std::vector<PointToPoint> peers_;
};

OperationPtr operation() { return std::make_shared<Operation>(Submission{}, 1); }

std::span<std::byte> writable(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), text.size()};
}

}  // namespace

TEST_CASE("PointToPoint: a short message arrives whether the receive came first or not") {
  for (const bool receive_first : {true, false}) {
    Pair ranks;
    std::string buffer(5, ' ');
    Message message;
    const auto received = operation();
    const auto sent = operation();
    if (receive_first) ranks[1].recv(0, 7, writable(buffer), &message, received);
    ranks[0].send(1, 7, as_bytes("hello"), sent);
    ranks.settle();
    if (!receive_first) ranks[1].recv(0, 7, writable(buffer), &message, received);
    ranks.settle();
    CHECK(sent->done());
    REQUIRE(received->done());
    CHECK(buffer == "hello");
    CHECK(message.source == 0);
    CHECK(message.tag == 7);
    CHECK(message.bytes == 5);
  }
}

TEST_CASE("PointToPoint: a long message is pulled in chunks") {
  Pair ranks;
  std::vector<std::byte> data(std::size_t{1200} << 10);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 % 251);
  std::vector<std::byte> buffer(data.size());
  const auto received = operation();
  const auto sent = operation();
  ranks[0].send(1, 1, data, sent);
  ranks.settle();
  CHECK_FALSE(sent->done());
  ranks[1].recv(kAnySource, 1, buffer, nullptr, received);
  ranks.settle();
  CHECK(sent->done());
  CHECK(received->done());
  CHECK(buffer == data);
}

TEST_CASE("PointToPoint: a receive of elements of another type fails and writes nothing") {
  for (const std::size_t bytes : {4UL, 16UL}) {  // sent at once, and pulled
    Pair ranks;
    const std::string data(bytes, 'x');
    std::string buffer(bytes, ' ');
    const auto sent = operation();
    const auto received = operation();
    ranks[1].recv(0, 3, writable(buffer), nullptr, received, "int32");
    ranks[0].send(1, 3, as_bytes(data), sent, "float32");
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

TEST_CASE("PointToPoint: a message of a type may be received as one of any type") {
  Pair ranks;
  std::string buffer(2, ' ');
  ranks[1].recv(0, 3, writable(buffer), nullptr, operation());
  ranks[0].send(1, 3, as_bytes("ab"), operation(), "float32");
  ranks.settle();
  CHECK(buffer == "ab");
}

TEST_CASE("PointToPoint: tags keep messages apart and order holds within a tag") {
  Pair ranks;
  std::string first(1, ' ');
  std::string second(1, ' ');
  std::string other(1, ' ');
  for (const auto& [tag, text] : {std::pair{1, "a"}, {2, "x"}, {1, "b"}}) {
    ranks[0].send(1, tag, as_bytes(text), operation());
  }
  ranks[1].recv(0, 1, writable(first), nullptr, operation());
  ranks[1].recv(0, 1, writable(second), nullptr, operation());
  ranks[1].recv(0, 2, writable(other), nullptr, operation());
  ranks.settle();
  CHECK(first + second + other == "abx");
}

TEST_CASE("PointToPoint: any source takes the first message, a named source waits for its own") {
  Pair ranks(3);
  std::string named(1, ' ');
  std::string any(1, ' ');
  Message message;
  ranks[0].recv(1, 0, writable(named), nullptr, operation());
  ranks[0].recv(kAnySource, 0, writable(any), &message, operation());
  ranks[2].send(0, 0, as_bytes("2"), operation());
  ranks.settle();
  ranks[1].send(0, 0, as_bytes("1"), operation());
  ranks.settle();
  CHECK(named == "1");
  CHECK(any == "2");
  CHECK(message.source == 2);
}

TEST_CASE("PointToPoint: a message too long for its buffer is an error with both lengths") {
  for (const std::size_t length : {std::size_t{6}, std::size_t{100}}) {  // short and announced
    Pair ranks;
    const std::string text(length, 'x');
    std::string buffer(3, ' ');
    const auto received = operation();
    const auto sent = operation();
    ranks[1].recv(0, 0, writable(buffer), nullptr, received);
    ranks[0].send(1, 0, as_bytes(text), sent);
    ranks.settle();
    REQUIRE(received->done());
    CHECK(received->status().code() == Code::kInvalidArgument);
    CHECK(received->status().message().find("only 3") != std::string::npos);
    CHECK(sent->done());
  }
}

TEST_CASE("PointToPoint: a rank can send to itself") {
  Pair ranks(1);
  std::string buffer(2, ' ');
  ranks[0].send(0, 4, as_bytes("me"), operation());
  ranks[0].recv(0, 4, writable(buffer), nullptr, operation());
  ranks.settle();
  CHECK(buffer == "me");
}

TEST_CASE("PointToPoint: what needs a rank that left fails, the rest waits on") {
  Pair ranks(3);
  std::string buffer(1, ' ');
  const auto from_left = operation();
  const auto from_any = operation();
  const auto to_left = operation();
  const std::string text(50, 'x');
  ranks[0].recv(1, 0, writable(buffer), nullptr, from_left);
  ranks[0].recv(kAnySource, 0, writable(buffer), nullptr, from_any);
  ranks[0].send(1, 0, as_bytes(text), to_left);
  ranks[0].on_left(1, Status(Code::kRankFailure, "rank 1 has left the job"));
  std::vector<FinishedMessage> ended;
  ranks[0].take_finished(ended);
  for (FinishedMessage& message : ended) message.operation->finish(message.status);
  CHECK(from_left->status().code() == Code::kRankFailure);
  CHECK(to_left->status().code() == Code::kRankFailure);
  CHECK_FALSE(from_any->done());
}

TEST_CASE("PointToPoint: frames that make no sense are refused") {
  Pair ranks;
  CHECK_FALSE(ranks[0].on_frame(1, {}).ok());
  std::vector<std::byte> zeros(40);
  CHECK_FALSE(ranks[0].on_frame(1, zeros).ok());
  zeros[0] = std::byte{3};  // asks for a message that was never announced
  CHECK_FALSE(ranks[0].on_frame(1, zeros).ok());
  zeros[0] = std::byte{4};  // data nobody asked for
  CHECK_FALSE(ranks[0].on_frame(1, zeros).ok());
}

}  // namespace ronde
