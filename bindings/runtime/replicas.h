// Finds the tensors that ranks should have alike and do not, by their hashes, and says so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ronde {

/// A tensor of one rank. `key`: of its form, which no other tensor of the rank has.
struct HashedTensor {
  std::uint64_t key = 0;
  std::uint64_t hash = 0;
};

/// A tensor that ranks do not have alike.
struct ReplicaDifference {
  std::uint64_t key = 0;
  /// Those that differ from most. Of two values that as many ranks have, that of the lowest counts.
  std::vector<int> ranks;
  int usual = 0;         ///< The lowest rank that has the value of most.
  int holder = 0;        ///< The lowest rank that has such a tensor.
  bool missing = false;  ///< Some ranks have none.
};

/// The differences, in the order of the lowest rank's tensors. `tables`: those of each of `ranks`.
std::vector<ReplicaDifference> find_differences(std::span<const int> ranks,
                                                std::span<const std::vector<HashedTensor>> tables);

/// "rank 3", or "ranks 1, 2, 3, 4 and 5 more".
std::string list_ranks(std::span<const int> ranks);
/// Names the tensor, and the ranks that have another one or other values.
std::string describe(const ReplicaDifference& difference, std::string_view label);

}  // namespace ronde
