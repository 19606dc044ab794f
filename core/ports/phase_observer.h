// Where a collective says which of its phases runs, so that a timeline can show it. Whoever
// computes or moves knows no more of the timeline than this.
#pragma once

#include <cstddef>
#include <string_view>

namespace ronde {

/// Hears of the phases of one collective on one rank; a null pointer where nobody listens.
/// Threads: one. Blocks: never.
class PhaseObserver {
 public:
  virtual ~PhaseObserver() = default;
  /// A phase begins, inside the one that is open.
  virtual void begin(std::string_view phase) = 0;
  /// The innermost open phase ends.
  virtual void end() = 0;
  /// Bytes of the whole collective: how much telling it bears.
  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
  /// For a second thread of the same collective.
  virtual PhaseObserver& beside() noexcept = 0;
};

/// The observer for a second thread, where there is any.
inline PhaseObserver* beside(PhaseObserver* observer) noexcept {
  return observer == nullptr ? nullptr : &observer->beside();
}

/// One phase: it lasts as long as this.
class Phase {
 public:
  /// Null `observer`: nobody is told.
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

}  // namespace ronde
