// Settings that ranks must share: where they differ, ranks would run different operations and wait
// for each other for ever. And what rank 0 decides for all.
#pragma once

#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/status.h"
#include "core/ports/backend.h"
#include "ops/selection/selector.h"

namespace ronde {

/// Compares this rank's settings with those of all ranks of `exchange`, and takes over the rows of
/// rank 0's tuning file (nobody else's is read). Collective.
/// Errors: kMismatch naming the setting, two ranks and both values; kInvalidArgument where rank 0
/// cannot read its tuning file. The same on all ranks.
Result<std::vector<SelectionRow>> agree_on_settings(const Config& config, int rank,
                                                    Exchange& exchange);

}  // namespace ronde
