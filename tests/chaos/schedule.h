// Collectives drawn from a seed, alike on all ranks, each checked element by element.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "ronde/ronde.h"

namespace ronde::chaos {

/// A result that is not what it must be: the worst that can happen.
class WrongResult : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Numbers that depend on what they were made from alone.
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t stream);
  /// One of 0 .. bound - 1.
  std::uint64_t below(std::uint64_t bound);

 private:
  std::uint64_t state_;
};

/// Runs in the middle of a step, when operations are in flight.
using Midway = void (*)(int step);

/// Submits what all ranks do in step `step`, calls `midway`, waits and checks all results.
/// Throws the first failure, after all operations of the step have ended; WrongResult.
void run_step(Job& job, std::uint64_t seed, int step, std::int64_t max_elements, Midway midway);

/// One small allreduce of every rank's number, checked.
void check_sum(Job& job, const std::string& name);

}  // namespace ronde::chaos
