// Disagreements drawn from a seed: some ranks say one thing of an operation, the others another.
#pragma once

#include <cstdint>

#include "ronde/ronde.h"

namespace ronde::chaos {

/// Makes all ranks submit operation number `index`, over which they disagree in one way, and says
/// "mismatch" with what came of it: "what", "code", "message". Throws nothing of that.
void disagree(Job& job, std::uint64_t seed, int index);

/// Every rank asks for a process set of its own; says "sets" with what it was told.
void disagree_about_sets(Job& job);

/// Rank `victim` submits one name twice before any other rank does once; says "twice" with what the
/// first submission came to, and on the victim the second too.
void submit_twice(Job& job, int victim);

}  // namespace ronde::chaos
