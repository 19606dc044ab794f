// Barrier by dissemination: no rank leaves before all have come.
#pragma once

#include "core/ports/transport.h"
#include "ops/flat_work.h"
#include "ops/scratch.h"

namespace ronde {

/// ceil(log2 n) steps with one empty message each; n ranks.
/// Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988.
Status dissemination_barrier(Transport& transport, const FlatWork& work, Scratch& scratch);

}  // namespace ronde
