// One end of a link, for tests of what is sent over it. The test is the peer at the other end.
#pragma once

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/net/control/tcp_link.h"

namespace ronde::net {

/// A link with `rank`, which this process has dialed.
class OneEnd {
 public:
  explicit OneEnd(int rank = 1) {
    int ends[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    other_.reset(ends[1]);
    link_.emplace(io_, Link{rank, Stream(FileDescriptor(ends[0])), true}, LossLimits{}, sink_);
    link_->start();
  }

  TcpLink& operator*() { return *link_; }

  /// The bytes that were sent since the last call.
  std::size_t sent() { return take().size(); }
  /// The kinds of the messages that were sent since the last call.
  std::vector<FrameKind> sent_kinds() {
    const std::vector<std::byte> bytes = take();
    std::vector<FrameKind> kinds;
    for (std::size_t at = 0; at < bytes.size();) {
      const FrameHead head = decode_head(std::span(bytes).subspan(at));
      kinds.push_back(head.kind);
      at += kFrameHeadBytes + head.length;
    }
    return kinds;
  }
  /// The peer sends a message without content, which the link reads.
  void receive(FrameKind kind, std::uint64_t number) {
    const FrameHeadBytes head = encode_head({kind, number});
    REQUIRE(::send(other_.get(), head.data(), head.size(), 0) == kFrameHeadBytes);
    io_.restart();
    io_.run_one();
  }

 private:
  std::vector<std::byte> take() {
    std::vector<std::byte> bytes(4096);
    const auto got = ::recv(other_.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return bytes;
  }

  const LinkSink sink_{[](TcpLink&) {}, [](TcpLink&, const FrameHead&, auto) {}, [](TcpLink&) {}};
  asio::io_context io_;
  FileDescriptor other_;
  std::optional<TcpLink> link_;
};

}  // namespace ronde::net
