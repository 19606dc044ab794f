// The steps or chunks that a phase goes through, told in a bounded number of stretches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "core/ports/phase_observer.h"

namespace ronde {

/// Bytes of a collective between processes that bear one stretch: a millisecond or so.
inline constexpr std::size_t kWireStretchBytes = std::size_t{1} << 20;

/// Tells an observer of `steps` steps as "NAME 5-8 of 64": consecutive steps make a stretch, one
/// for each `stretch_bytes` of the collective (rounded; none where it is smaller) and kMost at
/// most. Threads: one.
class PhaseSteps {
 public:
  static constexpr std::size_t kMost = 16;

  /// `name` outlives this.
  PhaseSteps(PhaseObserver* observer, std::string_view name, std::size_t steps,
             std::size_t stretch_bytes = kWireStretchBytes)
      : observer_(observer), name_(name), steps_(steps) {
    if (observer_ != nullptr) stretches_ = std::min({worth(stretch_bytes), kMost, steps});
  }
  ~PhaseSteps() {
    if (stretch_ > 0) observer_->end();
  }
  PhaseSteps(const PhaseSteps&) = delete;
  PhaseSteps& operator=(const PhaseSteps&) = delete;

  /// The next step begins, and the one before it ends.
  void next() {
    if (stretches_ > 0) tell();
  }

  /// For what a step is made of: the observer while the last step of a stretch lasts, else null.
  [[nodiscard]] PhaseObserver* detail() const noexcept { return last_ ? observer_ : nullptr; }

 private:
  [[nodiscard]] std::size_t worth(std::size_t stretch_bytes) const noexcept;
  void tell();

  PhaseObserver* const observer_;
  const std::string_view name_;
  const std::size_t steps_;
  std::size_t stretches_ = 0;
  std::size_t step_ = 0;     // begun so far
  std::size_t stretch_ = 0;  // likewise
  std::size_t end_ = 0;      // of the stretch: steps before it
  bool last_ = false;
};

}  // namespace ronde
