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

 private:
  std::set<elastic::WorkerId> members_;  ///< Of the last epoch.
};

}  // namespace ronde
