// Which ranks each process set has. The same on all ranks, members or not.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/engine/lane.h"

namespace ronde {

/// Threads: any.
class ProcessSets {
 public:
  /// Starts with the global set of ranks 0 .. size-1.
  explicit ProcessSets(int size);

  /// Checks the ranks of a set to be: sorted, distinct, of the job, unlike those of any other set.
  Status check_new(const std::vector<int>& ranks) const RONDE_EXCLUDES(mutex_);
  /// Adds a set and names it; ids are never used again.
  SetId add(std::vector<int> ranks) RONDE_EXCLUDES(mutex_);
  /// Reserves an id for a set that could not be made, so that the ranks stay in step.
  void skip() RONDE_EXCLUDES(mutex_);
  /// The id that add() will give next.
  [[nodiscard]] SetId next() const RONDE_EXCLUDES(mutex_);
  void remove(SetId id) RONDE_EXCLUDES(mutex_);
  /// Errors: kInvalidArgument where there is no such set.
  [[nodiscard]] Result<std::vector<int>> ranks(SetId id) const RONDE_EXCLUDES(mutex_);
  [[nodiscard]] std::vector<SetId> ids() const RONDE_EXCLUDES(mutex_);

 private:
  const int size_;
  mutable Mutex mutex_;
  std::map<SetId, std::vector<int>> sets_ RONDE_GUARDED_BY(mutex_);
  SetId next_ RONDE_GUARDED_BY(mutex_) = 1;
};

}  // namespace ronde
