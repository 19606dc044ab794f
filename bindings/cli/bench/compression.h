// `ronde bench --compression C`: what a codec costs and saves, beside the dense allreduce.
#pragma once

#include <cstddef>
#include <functional>

#include "bindings/cli/bench/report.h"
#include "bindings/cli/bench/team.h"

namespace ronde::bench {

/// What is compressed, and how.
struct CompressionBench {
  std::string compression;  ///< As CompressionSpec writes it, or "auto".
  std::size_t bytes = 0;    ///< Of fp32.
  int repetitions = 30;
};

/// Lets the dense allreduce and the compressed one of a matrix of random numbers take turns, each
/// with error feedback as in training. Hands over two rows at rank 0; the second says what
/// travelled, what took how long, and the norm of the mean's error by the mean's own, of a first
/// step. Collective over the team.
/// Errors: kInternal where ranks do not end with the same bits, or the result is not finite.
Status compete_compressed(Team& team, const CompressionBench& what,
                          const std::function<void(const Row&)>& add);

}  // namespace ronde::bench
