// The metrics of one rank, from what its engine has counted. docs/metrics.md lists them.
#pragma once

#include <cstdint>
#include <string>

#include "core/engine/records/meter.h"

namespace ronde::metrics {

/// Who tells.
struct RankFacts {
  std::string version;
  std::string job;
  std::string host;
  int rank = 0;
  int size = 1;
};

/// What is not in the meter.
struct RankState {
  std::uint64_t steps = 0;  ///< Marked as ended.
  bool broken = false;      ///< The job has failed.
};

/// All metrics in Prometheus' text format; at most some 100 KB. Threads: any. Blocks: never.
std::string metrics_text(const RankFacts& facts, const RankState& state, const Meter& meter);

}  // namespace ronde::metrics
