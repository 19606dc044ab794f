// Makes raw groups of executors.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/runtime/fork_mark.h"
#include "bindings/runtime/runtime.h"
#include "core/base/abort.h"
#include "core/engine/flight_ring.h"
#include "ops/execution/executor.h"

namespace ronde {

/// What a raw group is made with, beside its executor.
struct RawGroupOptions {
  std::shared_ptr<AbortToken> abort;
  std::shared_ptr<const ForkMark> mark;
  std::shared_ptr<FlightRing> flights;  ///< Where its operations are recorded.
  std::vector<int> ranks;               ///< Of the job, ascending.
  int rank = 0;                         ///< This one's, in the group.
  std::uint64_t key = 0;                ///< The same on all its ranks, no other group's.
};

std::unique_ptr<RawGroup> make_raw_group(std::unique_ptr<CollectiveExecutor> executor,
                                         RawGroupOptions options);

}  // namespace ronde
