// Tells if calls may use a runtime: not after its shutdown, not in a forked child.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "core/base/status.h"

namespace ronde {

/// Tells a process from its forked child, at the price of one load. Threads: any.
class ForkMark {
 public:
  ForkMark();
  ~ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;

  /// True in a child that was forked after construction.
  [[nodiscard]] bool forked() const noexcept { return page_ != nullptr && *page_ == 0; }

 private:
  volatile char* page_ = nullptr;  // the kernel hands children zeros; null where it cannot
};

/// The error of calls in a forked child.
Status forked_status();

/// Knows if this process may still use a runtime. Threads: any.
class RuntimeState {
 public:
  /// Ok, or kNotInitialized: after end(), or in a forked child.
  [[nodiscard]] Status usable() const {
    if (!fork_mark_->forked() && !ended_) return {};
    return why_unusable();
  }
  /// Ends the use. False where it has ended before, and in a forked child.
  [[nodiscard]] bool end() noexcept;
  /// Safe in signal handlers.
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  [[nodiscard]] bool forked() const noexcept { return fork_mark_->forked(); }
  /// The mark for objects that may outlive the runtime.
  [[nodiscard]] const std::shared_ptr<const ForkMark>& fork_mark() const noexcept {
    return fork_mark_;
  }

 private:
  [[nodiscard]] Status why_unusable() const;

  const std::shared_ptr<const ForkMark> fork_mark_ = std::make_shared<ForkMark>();
  std::atomic<bool> ended_{false};
};

}  // namespace ronde
