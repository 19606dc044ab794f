// The ranks that a job loses, and how a control channel delivers them among the frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/base/clock.h"

namespace ronde::net {

/// How a rank was lost.
enum class Loss : std::uint8_t {
  kLeft,         ///< It left the job on purpose.
  kDied,         ///< A rank of its host saw it end.
  kClosed,       ///< Its connection closed without a goodbye.
  kUnreachable,  ///< Its host acknowledged nothing for the link timeout.
  kAltered,      ///< Its connection delivered what it did not send, see tls.h.
  kFrozen,       ///< It did not run for the freeze timeout.
};

/// True if the job is broken by it.
constexpr bool breaks(Loss how) noexcept { return how != Loss::kLeft; }

/// One lost rank of the job.
struct LostRank {
  int rank = -1;
  Loss how{};
  int reporter = -1;  ///< The rank that found it.

  static void fields(auto& wire, auto& self) { wire(self.rank, self.how, self.reporter); }
  friend bool operator==(const LostRank&, const LostRank&) = default;
};

/// The limits of silence. Zero: none.
struct LossLimits {
  Duration link{0};
  Duration freeze{0};
  Duration reconnect{0};  ///< Of the time without a link, once there was one. Zero: no link heals.
};

/// The events of a poll.
struct ChannelEvents {
  std::function<void(int from, std::span<const std::byte>)> on_frame;
  /// Once per rank. For one that left: after its last frame by this way.
  std::function<void(const LostRank&)> on_lost;
};

}  // namespace ronde::net
