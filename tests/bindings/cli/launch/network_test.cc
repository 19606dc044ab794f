#include "bindings/cli/launch/network.h"

#include <doctest/doctest.h>

#include "core/base/os/interfaces.h"

namespace ronde {

TEST_CASE("network: this host is known by its names and addresses") {
  CHECK(is_this_host("localhost"));
  CHECK(is_this_host("127.0.0.1"));
  CHECK(is_this_host(host_name()));
  CHECK_FALSE(is_this_host("192.0.2.1"));
  CHECK_FALSE(is_this_host("no-such-host.invalid"));
}

TEST_CASE("network: an interface is found by name and by address") {
  CHECK(*chosen_address("lo") == "127.0.0.1");
  CHECK(*chosen_address("127.0.0.1") == "127.0.0.1");
}

TEST_CASE("network: an unknown interface is an error that lists those there are") {
  const auto address = chosen_address("nosuch0");
  CHECK(address.status().message().find("nosuch0") != std::string::npos);
  CHECK(address.status().message().find("lo") != std::string::npos);
}

TEST_CASE("network: packets to oneself leave from oneself") {
  CHECK(*address_towards("127.0.0.1") == "127.0.0.1");
  CHECK_FALSE(address_towards("no-such-host.invalid").ok());
}

TEST_CASE("network: a free port lies below those the kernel gives out by itself") {
  const auto port = free_port("127.0.0.1");
  REQUIRE(port.ok());
  CHECK(*port >= 20000);
  CHECK(*port < 32768);
}

TEST_CASE("network: IPv6 addresses are bracketed before a port") {
  CHECK(join_host_port("10.0.0.1", 5) == "10.0.0.1:5");
  CHECK(join_host_port("::1", 5) == "[::1]:5");
}

}  // namespace ronde
