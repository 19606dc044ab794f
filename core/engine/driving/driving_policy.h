// Two decisions of the driver. They learn from the results of earlier ones.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace ronde {

/// Decides whether the background thread waits for more submissions before it takes them on.
/// Waiting pays when more follow at once, or when their caller comes to wait and does the work
/// itself. It only delays submissions that come one at a time while no caller waits, as from a
/// framework's graph. Threads: one at a time.
class BatchingPolicy {
 public:
  /// True if waiting for more than these `waiting` submissions should pay: it paid the last time,
  /// or there are several. Every eighth time is a trial.
  [[nodiscard]] bool wanted(std::size_t waiting) noexcept {
    constexpr unsigned kSkipped = 8;
    return pays_ || waiting > 1 || ++skipped_ % kSkipped == 0;
  }

  /// Takes the number of submissions at the end of a wait. None means that a caller took them.
  void learn(std::size_t gathered) noexcept { pays_ = gathered != 1; }

 private:
  bool pays_ = true;
  unsigned skipped_ = 0;  ///< Modulo 2^32.
};

/// Decides whether a submitter drives for a moment, so that its operation ends without waking a
/// thread. That pays when the other ranks submit at the same time; otherwise it takes a core from
/// the framework. Each failure makes it skip more submissions, up to 63. Threads: any.
class InlineDrivePolicy {
 public:
  /// True if the caller is to drive for this submission.
  [[nodiscard]] bool wanted() noexcept {
    int left = skips_.load(std::memory_order_relaxed);
    while (left > 0) {
      if (skips_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) return false;
    }
    return true;
  }

  /// Takes whether the operation ended while its submitter drove.
  void learn(bool ended) noexcept {
    constexpr int kMost = 63;
    pause_ = ended ? 0 : std::min(2 * pause_ + 1, kMost);
    skips_.store(pause_, std::memory_order_relaxed);
  }

 private:
  std::atomic<int> skips_{0};  ///< Submissions to skip before the next that is driven.
  std::atomic<int> pause_{0};
};

}  // namespace ronde
