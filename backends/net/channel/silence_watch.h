// Judges how long peers have shown no sign of life. A sign is a number that changes: a beat in
// shared memory, or a count of input. It has no clock and no threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/clock.h"

namespace ronde::net {

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

}  // namespace ronde::net
