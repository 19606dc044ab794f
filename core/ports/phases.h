// How a collective reports its phases, so that a timeline can show them. Code that computes or
// moves data knows no more of the timeline.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace ronde {

/// Gets the phases of one collective on one rank. A null pointer: nothing is reported.
/// Threads: one. Blocks: never.
class PhaseObserver {
 public:
  virtual ~PhaseObserver() = default;
  /// A phase begins, inside the one that is open.
  virtual void begin(std::string_view phase) = 0;
  /// The innermost open phase ends.
  virtual void end() = 0;
  /// Bytes of the whole collective. Large ones report in more detail.
  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
  /// The observer for a second thread of the same collective.
  virtual PhaseObserver& beside() noexcept = 0;
};

/// The observer for a second thread; null for null.
inline PhaseObserver* beside(PhaseObserver* observer) noexcept {
  return observer == nullptr ? nullptr : &observer->beside();
}

/// One phase: it lasts as long as this.
class Phase {
 public:
  /// Null `observer`: nothing is reported.
  Phase(PhaseObserver* observer, std::string_view name) : observer_(observer) {
    if (observer_ != nullptr) observer_->begin(name);
  }
  ~Phase() {
    if (observer_ != nullptr) observer_->end();
  }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  PhaseObserver* const observer_;
};

/// Bytes that processes move in about a millisecond: enough for a stretch of its own.
inline constexpr std::size_t kWireStretchBytes = std::size_t{1} << 20;

/// Reports `steps` steps to an observer as "NAME 5-8 of 64". Consecutive steps make a stretch, one
/// for each `stretch_bytes` of the collective (rounded; none for smaller ones) and kMost at most.
/// Threads: one.
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

  /// The observer of a step's own phases: set in the last step of a stretch, else null.
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
