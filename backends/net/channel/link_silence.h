// How long one link has been silent: its peer, and the peer's host.
#pragma once

#include <optional>

#include "backends/net/channel/loss.h"
#include "backends/net/channel/silence_watch.h"
#include "backends/net/channel/tcp_link.h"
#include "core/base/clock.h"

namespace ronde::net {

/// Looks at a link each beat interval. Threads: one.
class LinkSilence {
 public:
  explicit LinkSilence(const LossLimits& limits)
      : peer_(1, kBeatInterval, limits.freeze), host_(1, kBeatInterval, limits.link) {}

  /// How the link is lost, if it is. The host shows life by acknowledging; a watched peer by bytes.
  std::optional<Loss> look(TcpLink& link, bool watched, TimePoint time) {
    host_.look(time);
    peer_.look(time);
    change_ = Silence::kNone;
    if (host_.sign(0, link.acknowledged(), Duration::max()) == Silence::kGivenUp) {
      return Loss::kUnreachable;
    }
    if (!watched) return std::nullopt;
    change_ = peer_.sign(0, link.received(), kSuspectAfter);
    return change_ == Silence::kGivenUp ? std::optional(Loss::kFrozen) : std::nullopt;
  }

  /// The news of the peer at this look.
  [[nodiscard]] Silence change() const noexcept { return change_; }
  /// How long the peer has been silent, or was before it came back.
  [[nodiscard]] Duration of_peer() const {
    return change_ == Silence::kBack ? peer_.silence_before(0) : peer_.silence(0);
  }
  [[nodiscard]] Duration of_host() const { return host_.silence(0); }

 private:
  SilenceWatch peer_;
  SilenceWatch host_;
  Silence change_ = Silence::kNone;
};

}  // namespace ronde::net
