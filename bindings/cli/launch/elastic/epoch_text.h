// Sentences about epochs, for people.
#pragma once

#include <set>
#include <string>

#include "core/elastic/director.h"

namespace ronde {

/// Describes each epoch against the one before. Threads: one.
class EpochText {
 public:
  /// "epoch 3: 3 of 4 workers go on; worker 2 (pid 7) was killed by signal 9 (Killed)".
  std::string begin(const elastic::BeginEpoch& epoch);
  /// The largest epoch so far.
  [[nodiscard]] int most_ranks() const noexcept { return most_ranks_; }

 private:
  std::set<elastic::WorkerId> members_;  ///< Of the last epoch.
  int most_ranks_ = 0;
};

}  // namespace ronde
