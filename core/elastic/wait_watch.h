// Watches an epoch that has ended for members that keep the next one from beginning.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/elastic/roster.h"

namespace ronde::elastic {

/// Decides when people should be told for whom the next epoch waits: once, and late enough that
/// most steps have ended. Threads: one.
class WaitWatch {
 public:
  static constexpr std::chrono::seconds kLimit{10};

  /// The sentence, once it is due. `closing`: some member of the epoch has ended, or is ready
  /// again.
  [[nodiscard]] std::optional<std::string> due(const Roster& roster, EpochId epoch, bool closing,
                                               TimePoint time);
  /// The wait began then; kForever if there is none, or it was told.
  [[nodiscard]] TimePoint since() const noexcept { return told_ ? kForever : since_; }

 private:
  bool told_ = false;
  TimePoint since_ = kForever;
};

}  // namespace ronde::elastic
