// A training step played with a model's gradients: how much of it is spent waiting for them.
#pragma once

#include <chrono>

#include "bindings/cli/bench/contender.h"

namespace ronde::bench {

/// One step on this rank. Backward: for each gradient (the trials, last layer first) some
/// computing, then it is submitted. Then the next forward, first layer first: each layer waits for
/// its own gradient and computes. Computing is slept through, as on an accelerator; each layer's
/// part is that of its bytes, backward has two thirds. `compute` is for all of it. `priorities`:
/// what forward needs first is the most urgent, else all are alike.
Contender step_contender(Team& team, Trials& trials, std::chrono::nanoseconds compute,
                         bool priorities);

}  // namespace ronde::bench
