// The process sets of an elastic job, which each epoch makes again.
#pragma once

#include <vector>

#include "bindings/elastic/ranks.h"
#include "bindings/runtime/groups/process_set_table.h"
#include "core/base/status.h"
#include "core/elastic/notes.h"
#include "core/engine/driving/interrupts.h"

namespace ronde::elastic {

/// A process set of the last epoch.
struct KeptSet {
  std::vector<WorkerId> workers;  ///< Ascending.
  SetId id = 0;                   ///< In that epoch.
};

/// A process set that was made again.
struct RemadeSet {
  std::vector<WorkerId> workers;
  std::vector<int> ranks;   ///< Theirs in this epoch, ascending.
  SetId id = 0;             ///< In this epoch.
  bool is_private = false;  ///< It has all ranks: the runtime has no other name for it than its id.
};

/// Makes the sets of the last epoch again whose workers are all left. Rank 0 knows them all:
/// workers that have joined learn of them. `mine`: those of this rank, which get their residuals
/// back. Collective. Errors: those of operations, and as ProcessSets::add().
Result<std::vector<RemadeSet>> remake_sets(Ranks& ranks, const EpochNote& place,
                                           const std::vector<KeptSet>& mine,
                                           const WaitOptions& options = {});

}  // namespace ronde::elastic
