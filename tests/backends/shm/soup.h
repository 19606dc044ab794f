// Random work of every kind, the same on all ranks, with inputs that any rank can compute for any
// other, so that each checks its own outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "core/ports/backend.h"

namespace ronde::test {

using Value = std::int32_t;
using Values = std::vector<Value>;

/// One operation: kind, root and the sizes in elements.
struct Dish {
  std::uint32_t seed = 0;
  Collective kind = Collective::kBarrier;
  int root = 0;
  bool in_place = false;
  int absent = -1;                              ///< Rank whose input is null, or -1.
  std::vector<std::size_t> segments;            ///< Elements of each.
  std::vector<std::vector<std::size_t>> parts;  ///< By segment and rank, where the kind has parts.
  std::vector<std::vector<std::size_t>> sends;  ///< alltoall: by sender and receiver.
};

/// The next operation for a group of `ranks`; `largest` bounds the elements of a segment.
Dish cook(std::mt19937& random, int ranks, std::size_t largest);

/// Runs `dish` as `rank` and checks the outputs with doctest.
void serve(Communicator& group, const Dish& dish, int ranks, int rank);

}  // namespace ronde::test
