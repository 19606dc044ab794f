// The process sets of an elastic job. Programs keep their numbers; each epoch makes the sets again.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bindings/elastic/remade_sets.h"
#include "bindings/runtime/groups/process_set_table.h"
#include "bindings/runtime/runtime.h"
#include "core/base/status.h"
#include "core/elastic/notes.h"

namespace ronde::elastic {

/// Knows the sets of one job by the numbers that the program has. Threads: those that may use
/// process sets; not during make_again().
class SetTable {
 public:
  /// The set's number in the current epoch. Errors: kInvalidArgument for one whose workers are not
  /// all left, and for unknown ones.
  [[nodiscard]] Result<SetId> id_of(SetId number) const;

  /// Makes a set, or finds the one that the job had before this worker joined it. Collective.
  /// Errors: as ProcessSets::add().
  Result<SetId> add(Runtime& runtime, const EpochNote& place, std::vector<int> ranks);
  /// Removes a set. Collective. Errors: as id_of() and ProcessSets::remove().
  Status remove(Runtime& runtime, SetId number);

  /// Makes the sets of the last epoch again whose workers are all left, by remake_sets().
  Status make_again(Runtime& runtime, const EpochNote& place);

 private:
  using Workers = std::vector<WorkerId>;
  struct Set {
    SetId id = 0;  // in the current epoch
    Workers workers;
    bool lost = false;
    bool is_private = false;  // the runtime has no other name for it than its number
    bool unclaimed = false;   // made for a worker that has joined, whose program has not asked yet
  };
  [[nodiscard]] std::optional<SetId> claim(const Workers& workers);
  void take(RemadeSet made);

  std::map<SetId, Set> sets_;  // by the program's number
  SetId last_number_ = 0;
};

}  // namespace ronde::elastic
