// Whether the background thread lets submissions gather before it takes them on. That pays where
// more follow at once, and where their caller comes to wait and then does the work itself. It only
// makes late those that come one at a time while nobody waits, as out of a framework's graph.
#pragma once

#include <cstddef>

namespace ronde {

/// Decides by what gathering was good for. Threads: one at a time.
class GatherHabit {
 public:
  /// Whether to gather, where `waiting` submissions are there already: where it paid the last time,
  /// or they are several, and once in eight times to see.
  [[nodiscard]] bool wanted(std::size_t waiting) noexcept {
    constexpr unsigned kSpared = 8;
    return pays_ || waiting > 1 || ++spared_ % kSpared == 0;
  }

  /// Of a gathering that was wanted: how many submissions there were at its end. None means that
  /// a caller took them.
  void learn(std::size_t gathered) noexcept { pays_ = gathered != 1; }

 private:
  bool pays_ = true;
  unsigned spared_ = 0;  ///< Gatherings that were left out, modulo 2^32.
};

}  // namespace ronde
