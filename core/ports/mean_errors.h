// Totals of the check of averages (RONDE_CHECK_MEAN), for metrics.
#pragma once

#include <atomic>
#include <cstdint>

namespace ronde {

/// Of one rank. Threads: any.
struct MeanErrors {
  std::atomic<std::uint64_t> compared = 0;  ///< Tensors.
  std::atomic<std::uint64_t> beyond = 0;    ///< Those with an error beyond the bound.
  std::atomic<double> worst_ulps = 0;
};

}  // namespace ronde
