// Sentences about hosts and epochs, for people.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "bindings/cli/launch/hosts.h"
#include "core/elastic/director.h"

namespace ronde {

/// "node1:4, node2:2"; "none".
std::string hosts_text(const std::vector<HostSlots>& hosts);

/// The hosts as the director takes them.
std::vector<elastic::HostPlaces> host_places(const std::vector<HostSlots>& hosts);

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
