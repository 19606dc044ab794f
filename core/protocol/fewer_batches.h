// Ranks with fewer batches than the others: the likely cause where a rank no longer submits an
// operation that all ranks submitted before.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/protocol/request.h"

namespace ronde {

/// "rank 1 probably has fewer batches than the others ... Give all ranks ...": the cause and its
/// remedies, the same for all ways to notice it. `ranks` is not empty. `otherwise`: another cause
/// that is possible; may be empty.
std::string fewer_batches_text(std::span<const int> ranks, std::string_view otherwise = {});

/// `; allreduce "w" (train.py:9) waits for it`, with the likely cause: an operation that waits for
/// `rank`, which has left the job. `known`: the rank submitted it before. `in_order`: it gave no
/// reason why it leaves.
std::string waits_for_leaver_text(const Request& request, int rank, bool known, bool in_order);

}  // namespace ronde
