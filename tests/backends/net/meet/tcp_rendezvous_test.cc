#include "backends/net/meet/tcp_rendezvous.h"

#include <doctest/doctest.h>

#include <string>

namespace ronde::net {
namespace {

std::string refusal(const std::string& setting, int family = AF_INET) {
  const auto addresses = interface_addresses(setting, family);
  CHECK(addresses.status().code() == Code::kInvalidArgument);
  return addresses.status().message();
}

TEST_CASE("interfaces: one may be named, or several by name or address, in their order") {
  CHECK(interface_addresses("lo", AF_INET)->front().host() == "127.0.0.1");
  CHECK(interface_addresses("lo", AF_INET6)->size() == 1);  // as a single one always did
  const auto both = interface_addresses("127.0.0.2,lo", AF_INET);
  REQUIRE(both.ok());
  REQUIRE(both->size() == 2);
  CHECK(both->front().host() == "127.0.0.2");
  CHECK(both->back().host() == "127.0.0.1");
  CHECK(both->back().port() == 0);
}

TEST_CASE("interfaces: a list that cannot be is refused, and the entry named") {
  CHECK(refusal("lo,lo") == "RONDE_NETWORK_INTERFACE=\"lo,lo\": lo is listed twice, as lo");
  CHECK(refusal("lo,127.0.0.1") ==
        "RONDE_NETWORK_INTERFACE=\"lo,127.0.0.1\": 127.0.0.1 is listed twice, as lo");
  CHECK(refusal("lo,") == "RONDE_NETWORK_INTERFACE=\"lo,\": a name is missing; allowed: eth0,eth1");
  CHECK(refusal("lo,nosuch0").find("\"nosuch0\" is not an address nor an interface") !=
        std::string::npos);
  CHECK(refusal("lo,::1") ==
        "RONDE_NETWORK_INTERFACE=\"lo,::1\": ::1 has no IPv4 address, which the rendezvous has");
  CHECK(refusal("::1,127.0.0.1", AF_INET6).find("127.0.0.1 has no IPv6 address") !=
        std::string::npos);
  CHECK(refusal("a,b,c,d,e,f,g,h,i").find("it lists 9 interfaces; allowed: 1 to 8") !=
        std::string::npos);
}

}  // namespace
}  // namespace ronde::net
