#include "core/base/os/interfaces.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace ronde {

TEST_CASE("interfaces: the loopback is there, with its address") {
  const auto all = list_interfaces();
  const auto found =
      std::find_if(all.begin(), all.end(), [](const Interface& each) { return each.name == "lo"; });
  REQUIRE(found != all.end());
  CHECK(found->up);
  CHECK(found->loopback);
  CHECK(found->address.port() == 0);
  CHECK(interface_address("lo")->host() == "127.0.0.1");
}

TEST_CASE("interfaces: an unknown one has no address") {
  CHECK_FALSE(interface_address("nosuch0").has_value());
  CHECK_FALSE(interface_address("").has_value());
}

TEST_CASE("interfaces: this host has a name") { CHECK_FALSE(host_name().empty()); }

}  // namespace ronde
