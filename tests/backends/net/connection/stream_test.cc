// A plain stream: partial sends, the end, and the blocking helpers.
#include "backends/net/connection/stream.h"

#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "backends/net/connection/frame.h"
#include "core/base/bytes.h"
#include "tests/backends/net/stream_pair.h"

namespace ronde::net {
namespace {

iovec piece_of(std::vector<std::byte>& bytes, std::size_t from = 0) {
  return {bytes.data() + from, bytes.size() - from};
}

TEST_CASE("a stream takes what fits now and delivers it in order") {
  StreamPair ends;
  std::vector<std::byte> out(std::size_t{4} << 20);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i * 7 >> 3);
  std::vector<std::byte> in(out.size());
  std::size_t sent = 0;
  std::size_t received = 0;
  bool was_full = false;
  while (received < in.size()) {
    const iovec left = piece_of(out, sent);
    const auto more = ends.here.send({&left, 1});
    REQUIRE(more.ok());
    sent += *more;
    was_full = was_full || (*more == 0 && sent < out.size());
    if (*more != 0) continue;
    const iovec room = piece_of(in, received);
    const auto got = ends.there.receive({&room, 1});
    REQUIRE(got.ok());
    received += *got;
  }
  CHECK(was_full);
  CHECK(in == out);
}

TEST_CASE("nothing to read is no error, the end is one, and so is a send to nobody") {
  StreamPair ends;
  std::vector<std::byte> bytes(8);
  const iovec room = piece_of(bytes);
  const auto none = ends.here.receive({&room, 1});
  REQUIRE(none.ok());
  CHECK(*none == 0);
  ends.there.close();
  CHECK_FALSE(ends.there.valid());
  const Status end = ends.here.receive({&room, 1}).status();
  CHECK(end.code() == Code::kUnavailable);
  CHECK(end.message() == "was closed");
  const Status broken = ends.here.send({&room, 1}).status();
  CHECK(broken.code() == Code::kUnavailable);
  CHECK(broken.message() == "broke: Broken pipe");
}

TEST_CASE("a message arrives whole, and one that is too long is refused") {
  StreamPair ends;
  REQUIRE(send_message(ends.here, "hello", now()).ok());
  CHECK(recv_message(ends.there, 5, now()).value() == "hello");
  REQUIRE(send_message(ends.here, "hello", now()).ok());
  CHECK(recv_message(ends.there, 4, now()).status().code() == Code::kInvalidArgument);
}

TEST_CASE("a frame of another kind is no message") {
  StreamPair ends;
  REQUIRE(send_all(ends.here, encode_head({FrameKind::kConfirm, 1}), now()).ok());
  CHECK(recv_message(ends.there, 5, now()).status().code() == Code::kInvalidArgument);
}

TEST_CASE("the blocking helpers end at their limit and name the connection's end") {
  StreamPair ends;
  std::array<std::byte, 4> bytes{};
  CHECK(recv_all(ends.here, bytes, now()).code() == Code::kTimeout);
  const std::vector<std::byte> much(std::size_t{8} << 20);
  CHECK(send_all(ends.here, much, now()).code() == Code::kTimeout);
  ends.there.close();
  CHECK(recv_all(ends.here, bytes, now()).message().find("the connection ") == 0);
}

}  // namespace
}  // namespace ronde::net
