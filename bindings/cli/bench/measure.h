// Interleaved timing: A B C A B C, the slowest rank counts.
#pragma once

#include <span>
#include <vector>

#include "bindings/cli/bench/contender.h"

namespace ronde::bench {

/// One contender's times, in microseconds per operation.
struct Timing {
  double p50_us = 0;
  double p99_us = 0;
};

/// The length of a measurement.
struct Effort {
  int repetitions = 30;  ///< Samples of each contender.
  int burst = 1;         ///< Operations in one sample, so that the clock's cost does not show.
};

/// More repetitions and longer bursts for small operations, never fewer than asked for.
Effort effort_for(std::size_t bytes, int repetitions);

/// The middle and the 99th percentile (nearest rank). `samples` is not empty.
Timing summarize(std::vector<double> samples);

/// Runs each contender once on spoiled outputs and checks the results, on all ranks; those without
/// trials only take part. Notes the algorithms: measurements end with an operation of the team.
/// Errors: the contender's; kInternal naming the contender whose result is wrong.
Status check(Team& team, std::span<Contender> contenders, Trials& trials);

/// Times all contenders, interleaved, each after a barrier. Collective over the team.
Result<std::vector<Timing>> measure(Team& team, std::span<const Contender> contenders,
                                    const Effort& effort);

}  // namespace ronde::bench
