#include "backends/net/channel/link_dialer.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ronde::net {
namespace {

constexpr std::chrono::seconds kCardLimit{2};

}  // namespace

LinkDialer::LinkDialer(const LinkArgs& args, Duration reconnect,
                       std::function<void(int rank, Status why)> no_route)
    : args_(args),
      reconnect_(reconnect),
      no_route_(std::move(no_route)),
      cards_(reconnect > Duration::zero() ? args.routes.count() : 1) {}

void LinkDialer::dial(int rank, LinkPeer& peer, TimePoint deadline) {
  if (std::exchange(peer.dialing, true)) return;
  peer.dial_limit = peer.outage ? peer.outage->began + reconnect_ : deadline;
  if (peer.outage) ++card_;
  dial_over_a_card(rank, peer);
}

bool LinkDialer::try_next_card(int rank, LinkPeer& peer, const Status& why) {
  if (why.code() != Code::kTimeout || now() >= peer.dial_limit) return false;
  ++card_;
  dial_over_a_card(rank, peer);
  return true;
}

/// Each card has some time, where there are several.
void LinkDialer::dial_over_a_card(int rank, const LinkPeer& peer) {
  const auto route = args_.routes.to(rank, card_ % cards_);
  if (!route.ok()) return no_route_(rank, route.status());
  TimePoint deadline = peer.dial_limit;
  if (cards_ > 1) deadline = std::min(deadline, now() + kCardLimit);
  args_.manager->dial(service_, rank, *route, deadline);
}

}  // namespace ronde::net
