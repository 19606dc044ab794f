// Which ranks the others wait for, and where those lose their time.
#pragma once

#include <string>
#include <vector>

#include "timeline/report/verdict.h"

namespace ronde::report {

/// A rank that is late again and again.
struct Straggler {
  std::size_t index = 0;           ///< Of JobTrace::ranks.
  double wait_ns = 0;              ///< What each other rank waits for it, per step.
  std::uint64_t late_steps = 0;    ///< In which it was waited for most.
  std::uint64_t late_costly = 0;   ///< Of those that cost.
  std::uint64_t costly_steps = 0;  ///< The longest waits, which hold most of the waiting.
};

/// The ranks to be named, the costliest first.
std::vector<Straggler> find_stragglers(const JobTrace& job, const Analysis& analysis);

/// The finding that names it, and the part of its step that is slow.
Finding describe(const Straggler& straggler, const JobTrace& job, const Analysis& analysis);

}  // namespace ronde::report
