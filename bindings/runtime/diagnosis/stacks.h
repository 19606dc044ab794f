// Stacks of this process's own threads, taken by a signal to each of them. Written here: libraries
// that unwind other threads stop the process, or need a second one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"

namespace ronde::diagnosis {

/// What one thread is doing.
struct ThreadStack {
  int tid = 0;
  std::string name;
  std::string state;                ///< As the kernel sees it.
  std::vector<std::string> frames;  ///< Innermost first; empty where it did not answer.
};

/// Asks each of `tids` where it is, with a real-time signal that nobody else uses (its handler
/// stays installed); a thread that blocks signals, or does not answer by `deadline`, is told with
/// the kernel's view alone. System calls of the threads are restarted, as far as they can be.
/// Threads: any, one at a time in a process. Blocks: until `deadline` at most.
std::vector<ThreadStack> take_stacks(std::span<const int> tids, TimePoint deadline);

}  // namespace ronde::diagnosis
