// The ranks of each process set: of public sets, which all ranks of the job know, and of private
// ones, which their members alone know.
#pragma once

#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/engine/queues/set_queue.h"

namespace ronde {

/// Private sets have ids from here on.
inline constexpr SetId kFirstPrivateSet = SetId{1} << 30;

/// Holds the ranks of each process set that this rank knows. Threads: any.
class ProcessSetTable {
 public:
  /// Starts with the global set of ranks 0 .. size-1.
  explicit ProcessSetTable(int size);

  /// Checks the ranks of a private set: ascending, distinct, at least one, of the job.
  Status check_ranks(const std::vector<int>& ranks) const;
  /// Checks the ranks of a public set: as check_ranks(), and no public set has them.
  Status check_new(const std::vector<int>& ranks) const RONDE_EXCLUDES(mutex_);
  /// Adds a public set and returns its id; ids are never used again. Its number for people is
  /// that of the set which was removed first and gave its number to no other, else a new one.
  SetId add(std::vector<int> ranks) RONDE_EXCLUDES(mutex_);
  /// Uses up the id of a public set that could not be made: ids stay the same on all ranks. It
  /// takes no number.
  void skip() RONDE_EXCLUDES(mutex_);
  /// The id that add() will give next.
  [[nodiscard]] SetId next() const RONDE_EXCLUDES(mutex_);
  /// The number that add() will give next.
  [[nodiscard]] SetId next_number() const RONDE_EXCLUDES(mutex_);
  /// The least id that this rank has not used for a private set.
  [[nodiscard]] SetId next_private() const RONDE_EXCLUDES(mutex_);
  /// Adds a private set under an id that its members agreed on, at least next_private().
  void add_private(SetId id, std::vector<int> ranks) RONDE_EXCLUDES(mutex_);
  void remove(SetId id) RONDE_EXCLUDES(mutex_);
  /// Errors: kInvalidArgument where there is no such set.
  [[nodiscard]] Result<std::vector<int>> ranks(SetId id) const RONDE_EXCLUDES(mutex_);
  /// Ids of the public sets.
  [[nodiscard]] std::vector<SetId> ids() const RONDE_EXCLUDES(mutex_);
  /// The number of a set for people and scripts, the same on all its ranks. Numbers of removed
  /// public sets are used again, as in Horovod. A private set's number is its id.
  /// Errors: kInvalidArgument where there is no such set.
  [[nodiscard]] Result<SetId> number(SetId id) const RONDE_EXCLUDES(mutex_);

 private:
  struct PublicSet {
    std::vector<int> ranks;
    SetId number = kGlobalSet;
  };
  SetId take_number() RONDE_REQUIRES(mutex_);

  const int size_;
  mutable Mutex mutex_;
  std::map<SetId, PublicSet> sets_ RONDE_GUARDED_BY(mutex_);
  SetId next_ RONDE_GUARDED_BY(mutex_) = 1;
  SetId next_number_ RONDE_GUARDED_BY(mutex_) = 1;
  std::queue<SetId> free_numbers_ RONDE_GUARDED_BY(mutex_);
  std::map<SetId, std::vector<int>> private_sets_ RONDE_GUARDED_BY(mutex_);
  SetId next_private_ RONDE_GUARDED_BY(mutex_) = kFirstPrivateSet;
};

}  // namespace ronde
