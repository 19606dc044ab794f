#include "backends/net/channel/silence_watch.h"

#include <algorithm>
#include <utility>

namespace ronde::net {

SilenceWatch::SilenceWatch(std::size_t peers, Duration interval, Duration give_up)
    : interval_(interval), give_up_(give_up), peers_(peers) {}

void SilenceWatch::look(TimePoint time) {
  passed_ = std::min(time - last_look_, 2 * interval_);
  last_look_ = time;
}

Silence SilenceWatch::sign(std::size_t peer, std::uint64_t value, Duration suspect_after) {
  Peer& known = peers_[peer];
  const bool changed = !std::exchange(known.known, true) || known.value != value;
  known.value = value;
  if (changed) {
    known.before = std::exchange(known.silence, Duration::zero());
    return std::exchange(known.suspected, false) ? Silence::kBack : Silence::kNone;
  }
  known.silence += passed_;
  if (give_up_ > Duration::zero() && known.silence >= give_up_) {
    return std::exchange(known.given_up, true) ? Silence::kNone : Silence::kGivenUp;
  }
  if (known.silence < suspect_after || std::exchange(known.suspected, true)) return Silence::kNone;
  return Silence::kSuspected;
}

}  // namespace ronde::net
