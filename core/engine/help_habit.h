// Whether a submitter that would rather not wait should drive for a moment, so that its operation
// ends without a thread being woken. That pays where the other ranks come at the same time; where
// they come later it only takes a core from the framework's own work.
#pragma once

#include <algorithm>
#include <atomic>

namespace ronde {

/// Decides by what helping was good for: each time in vain, more submissions are spared, up to 63.
/// Threads: any.
class HelpHabit {
 public:
  /// Whether to help with this submission.
  [[nodiscard]] bool wanted() noexcept {
    int left = spared_.load(std::memory_order_relaxed);
    while (left > 0) {
      if (spared_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) return false;
    }
    return true;
  }

  /// Of a help that was wanted: whether the operation ended by it.
  void learn(bool ended) noexcept {
    constexpr int kMost = 63;
    pause_ = ended ? 0 : std::min(2 * pause_ + 1, kMost);
    spared_.store(pause_, std::memory_order_relaxed);
  }

 private:
  std::atomic<int> spared_{0};  ///< Submissions that are not helped with before the next one is.
  std::atomic<int> pause_{0};
};

}  // namespace ronde
