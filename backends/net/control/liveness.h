// How long peers have shown no sign of life, and how ranks are lost. A sign is a number that
// changes: a beat in shared memory, or a count of input. It has no clock and no threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

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

/// How often signs are given and looked at.
inline constexpr std::chrono::milliseconds kBeatInterval{200};
/// Silence after which a rank is suspected that has the processor time to run.
inline constexpr std::chrono::milliseconds kSuspectAfter{600};
/// Silence after which a rank is suspected that may only be short of processor time.
inline constexpr std::chrono::seconds kSuspectBusyAfter{4};

/// The state of a peer at this look.
enum class Silence : std::uint8_t {
  kNone,       ///< Nothing new.
  kSuspected,  ///< It has been silent for long; reported once.
  kBack,       ///< It was suspected and is heard again.
  kGivenUp,    ///< It has been silent for too long; reported once.
};

/// Measures the silence of peers. Threads: one at a time.
class SilenceWatch {
 public:
  /// `give_up` zero: never.
  SilenceWatch(std::size_t peers, Duration interval, Duration give_up);

  /// Watches one more; returns its number.
  std::size_t add() {
    peers_.emplace_back();
    return peers_.size() - 1;
  }

  /// Begins a look at the peers. Time in which this process itself did not run (it was stopped, or
  /// the machine suspended) does not count as their silence.
  void look(TimePoint time);
  /// The sign of one peer at this look, and when silence is suspicious. The first one only starts
  /// the watch.
  Silence sign(std::size_t peer, std::uint64_t value, Duration suspect_after);
  /// How long this peer has been silent.
  [[nodiscard]] Duration silence(std::size_t peer) const { return peers_[peer].silence; }
  /// How long it had been silent before it gave its last sign.
  [[nodiscard]] Duration silence_before(std::size_t peer) const { return peers_[peer].before; }

 private:
  struct Peer {
    std::uint64_t value = 0;
    Duration silence{0};
    Duration before{0};  // up to the last sign
    bool known = false;
    bool suspected = false;
    bool given_up = false;
  };

  const Duration interval_;
  const Duration give_up_;
  Duration passed_{0};
  TimePoint last_look_{};
  std::vector<Peer> peers_;
};

/// How long one link has been silent: its peer, and the peer's host.
/// It is looked at each beat interval. Threads: one.
class LinkSilence {
 public:
  explicit LinkSilence(const LossLimits& limits)
      : peer_(1, kBeatInterval, limits.freeze), host_(1, kBeatInterval, limits.link) {}

  /// How the link is lost, if it is. The host shows life by changes of `acknowledged`; a watched
  /// peer by changes of `received`.
  std::optional<Loss> look(std::uint64_t acknowledged, std::uint64_t received, bool watched,
                           TimePoint time) {
    host_.look(time);
    peer_.look(time);
    change_ = Silence::kNone;
    if (host_.sign(0, acknowledged, Duration::max()) == Silence::kGivenUp) {
      return Loss::kUnreachable;
    }
    if (!watched) return std::nullopt;
    change_ = peer_.sign(0, received, kSuspectAfter);
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

inline SilenceWatch::SilenceWatch(std::size_t peers, Duration interval, Duration give_up)
    : interval_(interval), give_up_(give_up), peers_(peers) {}

inline void SilenceWatch::look(TimePoint time) {
  passed_ = std::min(time - last_look_, 2 * interval_);
  last_look_ = time;
}

inline Silence SilenceWatch::sign(std::size_t peer, std::uint64_t value, Duration suspect_after) {
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
