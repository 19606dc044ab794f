// The choice of an algorithm: a table over collective, bytes and ranks, with the user's override.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/collective.h"
#include "core/base/status.h"
#include "core/ports/transport.h"
#include "ops/algorithms.h"
#include "ops/transfer.h"

namespace ronde {

/// The override that means the communicator's own collective.
inline constexpr std::string_view kNativeAlgorithm = "native";

/// The override that asks for two levels, over the backend that spans the hosts.
inline constexpr std::string_view kHierarchicalAlgorithm = "hierarchical";

/// The override that deterministic mode stands for: one order of addition for all sizes.
inline constexpr std::string_view kDeterministicAlgorithm = "direct";

/// Averages among at most as many ranks are computed by kDeterministicAlgorithm: each rank reduces
/// all inputs of its chunk at once, so that the mean is rounded once. The bytes are those of a
/// ring.
inline constexpr int kMostRanksOfExactMean = 8;

/// One algorithm of ops/ under the name users write.
struct Algorithm {
  Collective kind = Collective::kBarrier;
  std::string_view name;
  Status (*run)(Transport&, const FlatWork&, Scratch&) = nullptr;
};

/// One row of the table: for these many bytes (of the whole operation) and ranks, this algorithm.
/// The first row that fits wins.
struct SelectionRow {
  Collective kind = Collective::kBarrier;
  std::string_view algorithm;
  std::size_t max_bytes = std::numeric_limits<std::size_t>::max();
  int max_ranks = std::numeric_limits<int>::max();
};

/// All algorithms, and the table: fixed, in the order in which they are documented.
std::span<const Algorithm> algorithms() noexcept;
std::span<const SelectionRow> selection_table() noexcept;

/// The algorithm of this name, or null.
const Algorithm* find_algorithm(Collective kind, std::string_view name) noexcept;

/// The table as lines for people: "allreduce up to 4 KiB: tree"; after the rows of `tuned`.
std::vector<std::string> describe_selection(std::span<const SelectionRow> tuned = {});

/// Ok if users may ask for `algorithm`: empty, "native", "hierarchical", or a name of algorithms().
/// Errors: kInvalidArgument listing what is allowed.
Status check_algorithm(std::string_view algorithm);

/// The override that a reduction stands for where the user asks for none: kDeterministicAlgorithm
/// for averages of float32 and float64 among at most kMostRanksOfExactMean ranks, else empty.
std::string_view exact_algorithm(const Reduction& what, int ranks) noexcept;

/// The algorithm for one operation. A name in `algorithm` decides for the kinds that have an
/// algorithm of that name; elsewhere, and where it is empty or "native", the first row of `tuned`
/// that fits decides, else the table.
/// Errors: as check_algorithm; kUnsupported for kinds that have none (join).
Result<const Algorithm*> select_algorithm(Collective kind, std::size_t bytes, int ranks,
                                          std::string_view algorithm,
                                          std::span<const SelectionRow> tuned = {});

}  // namespace ronde
