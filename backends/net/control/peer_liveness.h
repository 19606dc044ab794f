// Whether a peer is alive: it runs, is silent, is frozen, or is gone and why. The watch of a host
// and the links between hosts feed it with what they see of the peer, and with the time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "backends/net/control/losses.h"
#include "core/base/clock.h"

namespace ronde::net {

/// How often peers show life and are looked at.
inline constexpr std::chrono::milliseconds kBeatInterval{200};
/// Silence after which a peer counts as frozen that has the processor time to run.
inline constexpr std::chrono::milliseconds kFrozenAfter{600};
/// Silence after which a peer counts as frozen that may only be short of processor time.
inline constexpr std::chrono::seconds kFrozenBusyAfter{4};

/// The state of a peer.
enum class Life : std::uint8_t {
  kAlive,   ///< It may be silent for a short time.
  kSilent,  ///< Its last sign of life is longer ago than one look.
  kFrozen,  ///< It has been silent for so long that it does not run. It may come back.
  kGone,    ///< For good: see PeerLiveness::loss.
};

/// The findings of one look at a peer. A number that has changed is a sign of life.
struct LifeSigns {
  std::optional<std::uint64_t> beats{};    ///< Of the peer. None: it gives no signs (yet).
  std::optional<std::uint64_t> answers{};  ///< Of the peer's host. None: it is this host.
  bool may_be_busy = false;                ///< The peer may be short of processor time.
};

/// Judges one peer by its signs of life and by news of its end. Threads: one at a time.
class PeerLiveness {
 public:
  /// `limits`: of silence, after which the peer is gone.
  explicit PeerLiveness(const LossLimits& limits) noexcept
      : freeze_limit_(limits.freeze), host_limit_(limits.link) {}

  /// Looks at the peer, once each beat interval. The first signs only begin the watch. Time in
  /// which this process itself did not run does not count as silence: it was stopped, or the
  /// machine suspended. True where the peer has frozen, come back or gone since the last look.
  bool look(const LifeSigns& signs, TimePoint time);
  /// Takes news of the peer's end: from a socket, the kernel or another rank. The first counts.
  void lose(Loss how) noexcept {
    if (!loss_) loss_ = how;
  }

  [[nodiscard]] Life state() const noexcept;
  /// Why it is gone; nothing while it is not.
  [[nodiscard]] const std::optional<Loss>& loss() const noexcept { return loss_; }
  /// How long the peer has been silent.
  [[nodiscard]] Duration silence() const noexcept { return peer_.lasted; }
  /// How long it had been silent before its last sign.
  [[nodiscard]] Duration last_silence() const noexcept { return peer_.before; }
  /// How long the peer's host has been silent.
  [[nodiscard]] Duration host_silence() const noexcept { return host_.lasted; }

 private:
  /// The time for which a number has not changed.
  struct Silence {
    void look(std::uint64_t value, TimePoint time) noexcept;

    std::optional<std::uint64_t> last;
    TimePoint looked{};
    Duration lasted{0};
    Duration before{0};  // up to the last change
  };

  Duration freeze_limit_;
  Duration host_limit_;
  Silence peer_;
  Silence host_;
  bool frozen_ = false;
  std::optional<Loss> loss_;
};

inline void PeerLiveness::Silence::look(std::uint64_t value, TimePoint time) noexcept {
  const Duration passed = std::min<Duration>(time - looked, 2 * kBeatInterval);
  looked = time;
  if (last == value) {
    lasted += passed;
  } else {
    before = lasted;
    lasted = Duration::zero();
  }
  last = value;
}

inline bool PeerLiveness::look(const LifeSigns& signs, TimePoint time) {
  if (loss_) return false;
  if (signs.answers) host_.look(*signs.answers, time);
  if (signs.beats) peer_.look(*signs.beats, time);
  const auto exceeds = [](const Silence& silence, Duration limit) {
    return limit > Duration::zero() && silence.lasted >= limit;
  };
  if (exceeds(host_, host_limit_)) loss_ = Loss::kUnreachable;
  if (!loss_ && exceeds(peer_, freeze_limit_)) loss_ = Loss::kFrozen;
  const Duration limit = signs.may_be_busy ? Duration(kFrozenBusyAfter) : Duration(kFrozenAfter);
  const bool silent = peer_.lasted > Duration::zero();
  const bool was_frozen = std::exchange(frozen_, silent && (frozen_ || peer_.lasted >= limit));
  return loss_ || frozen_ != was_frozen;
}

inline Life PeerLiveness::state() const noexcept {
  if (loss_) return Life::kGone;
  if (frozen_) return Life::kFrozen;
  return peer_.lasted > Duration::zero() ? Life::kSilent : Life::kAlive;
}

}  // namespace ronde::net
