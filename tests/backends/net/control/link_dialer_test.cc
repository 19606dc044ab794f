// The interfaces and limits of dials.
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "backends/net/control/tcp_links.h"

namespace ronde::net {
namespace {

/// Dials rank 1 over either of two interfaces, and notes which.
struct Dials {
  explicit Dials(Duration reconnect)
      : dialer(routes, reconnect, [this](int rank, const Route& route, TimePoint) {
          CHECK(rank == 1);
          tried.push_back(route.to.text() == "@second" ? 1 : 0);
        }) {}

  const Routes routes{.interfaces = std::vector<Endpoint>(2),
                      .addresses = {{}, {abstract_endpoint("first"), abstract_endpoint("second")}}};
  LinkPeer peer{/*heals=*/true};
  std::vector<int> tried;
  LinkDialer dialer;
};

constexpr std::chrono::hours kLong{1};

TEST_CASE("a peer is dialed once at a time") {
  Dials dials(kLong);
  const TimePoint limit = now() + kLong;
  dials.dialer.dial(1, dials.peer, limit);
  CHECK(dials.peer.dialing);
  CHECK(dials.peer.dial_limit == limit);
  dials.dialer.dial(1, dials.peer, {});
  CHECK(dials.tried == std::vector<int>{0});
  CHECK(dials.peer.dial_limit == limit);
}

TEST_CASE("a dial that takes too long goes over the next interface, while there is time") {
  Dials dials(kLong);
  dials.dialer.dial(1, dials.peer, now() + kLong);
  const Status late(Code::kTimeout, "");
  CHECK(dials.dialer.try_next_interface(1, dials.peer, late));
  CHECK(dials.dialer.try_next_interface(1, dials.peer, late));
  CHECK(dials.tried == std::vector<int>{0, 1, 0});
  CHECK_FALSE(dials.dialer.try_next_interface(1, dials.peer, {Code::kRankFailure, "refused"}));
  dials.peer.dial_limit = now();
  CHECK_FALSE(dials.dialer.try_next_interface(1, dials.peer, late));
  CHECK(dials.tried.size() == 3);
}

TEST_CASE(
    "a link that has broken is dialed over another interface, as long as its outage may last") {
  Dials dials(kLong);
  dials.peer.outages.begin(now(), "broke");
  dials.dialer.dial(1, dials.peer, {});
  CHECK(dials.tried == std::vector<int>{1});
  CHECK(dials.peer.dial_limit == dials.peer.outages.lasting()->began + kLong);
}

TEST_CASE("links that do not heal go over the first interface alone") {
  Dials dials(Duration::zero());
  dials.dialer.dial(1, dials.peer, now() + kLong);
  CHECK(dials.dialer.try_next_interface(1, dials.peer, {Code::kTimeout, ""}));
  CHECK(dials.tried == std::vector<int>{0, 0});
}

}  // namespace
}  // namespace ronde::net
