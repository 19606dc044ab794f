// Finds ranks that the others wait for, and the part of their steps that is slow.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/verdict.h"

namespace ronde::report {

/// A rank that is repeatedly late.
struct Straggler {
  std::size_t index = 0;          ///< Index of JobTrace::ranks.
  double wait_ns = 0;             ///< Mean time per step that each other rank waits for it.
  std::uint64_t late_steps = 0;   ///< Steps in which the others waited for it most.
  std::uint64_t late_costly = 0;  ///< The costly ones among them.
  std::uint64_t costly_steps =
      0;  ///< Steps with the longest waits, which make up most of the waiting.
};

/// The stragglers, the costliest first.
std::vector<Straggler> find_stragglers(const JobTrace& job, const Analysis& analysis);

/// The finding: the rank, and the part of its step that is slow.
Finding describe(const Straggler& straggler, const JobTrace& job, const Analysis& analysis);

}  // namespace ronde::report
