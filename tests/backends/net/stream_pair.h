// Both ends of a connection inside the test.
#pragma once

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>

#include "backends/net/connection/stream.h"

namespace ronde::net {

struct StreamPair {
  StreamPair() {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0);
    here = Stream(FileDescriptor(fds[0]));
    there = Stream(FileDescriptor(fds[1]));
  }
  Stream here;
  Stream there;
};

}  // namespace ronde::net
