// `ronde bench --tune FILE`: which algorithm is fastest on this machine, for each collective, size
// and number of ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bindings/cli/bench/options.h"
#include "bindings/cli/bench/team.h"
#include "ops/selection/selector.h"

namespace ronde::bench {

/// The fastest algorithm at one size.
struct Winner {
  std::size_t bytes = 0;
  std::string_view algorithm;
};

/// Rows for one collective and up to `ranks` ranks, from winners by ascending size: an algorithm
/// reaches half way (by ratio) to the first size that another won; the last has no limit.
std::vector<SelectionRow> rows_of(Collective kind, int ranks, std::span<const Winner> winners);

/// 2, 4, 8, ... and `np` itself.
std::vector<int> group_sizes(int np);

/// Measures all algorithms of all collectives that have several, and writes the file at rank 0.
/// Collective over the team. `note` is told what comes out. Errors: kInternal naming an algorithm
/// whose result is wrong, or saying that the file cannot be written.
Status tune(Team& team, const Options& options,
            const std::function<void(const std::string&)>& note);

}  // namespace ronde::bench
