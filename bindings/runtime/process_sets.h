// Which ranks each process set has: those that all ranks of the job know of, and those that only
// their members do.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/engine/set_queue.h"

namespace ronde {

/// Sets known to their members only have ids from here on.
inline constexpr SetId kFirstPrivateSet = SetId{1} << 30;

/// Threads: any.
class ProcessSets {
 public:
  /// Starts with the global set of ranks 0 .. size-1.
  explicit ProcessSets(int size);

  /// Checks ranks to be: sorted, distinct, at least one, of the job.
  Status check_ranks(const std::vector<int>& ranks) const;
  /// Checks the ranks of a set to be: sorted, distinct, of the job, unlike those of any other set.
  Status check_new(const std::vector<int>& ranks) const RONDE_EXCLUDES(mutex_);
  /// Adds a set and names it; ids are never used again.
  SetId add(std::vector<int> ranks) RONDE_EXCLUDES(mutex_);
  /// Reserves an id for a set that could not be made, so that the ranks stay in step.
  void skip() RONDE_EXCLUDES(mutex_);
  /// The id that add() will give next.
  [[nodiscard]] SetId next() const RONDE_EXCLUDES(mutex_);
  /// The least id that this rank has not used for a set known to its members only.
  [[nodiscard]] SetId next_private() const RONDE_EXCLUDES(mutex_);
  /// Adds such a set under an id that its members agreed on, at least next_private().
  void add_private(SetId id, std::vector<int> ranks) RONDE_EXCLUDES(mutex_);
  void remove(SetId id) RONDE_EXCLUDES(mutex_);
  /// Errors: kInvalidArgument where there is no such set.
  [[nodiscard]] Result<std::vector<int>> ranks(SetId id) const RONDE_EXCLUDES(mutex_);
  /// Ids of the sets that all ranks of the job know of.
  [[nodiscard]] std::vector<SetId> ids() const RONDE_EXCLUDES(mutex_);

 private:
  const int size_;
  mutable Mutex mutex_;
  std::map<SetId, std::vector<int>> sets_ RONDE_GUARDED_BY(mutex_);
  SetId next_ RONDE_GUARDED_BY(mutex_) = 1;
  std::map<SetId, std::vector<int>> private_sets_ RONDE_GUARDED_BY(mutex_);
  SetId next_private_ RONDE_GUARDED_BY(mutex_) = kFirstPrivateSet;
};

}  // namespace ronde
