// The choice of the path of a sparse allreduce, and the division of its rows among the ranks. Pure
// functions over numbers that all ranks have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/enum_table.h"
#include "core/base/status.h"
#include "ops/sparse/row_sums.h"

namespace ronde {

/// How a sparse allreduce is done.
enum class SparsePath : std::uint8_t {
  kAuto,
  kKeys,       ///< Rows go to the owner of their index, are added there, and are gathered.
  kAllgather,  ///< Every rank gets all rows, and adds them.
  kTable,      ///< All rows of the table are reduced.
};

struct SparsePathRow {
  SparsePath value;
  std::string_view name;
};
inline constexpr std::array kSparsePaths = {
    SparsePathRow{SparsePath::kAuto, "auto"}, SparsePathRow{SparsePath::kKeys, "keys"},
    SparsePathRow{SparsePath::kAllgather, "allgather"}, SparsePathRow{SparsePath::kTable, "dense"}};
static_assert(is_in_order(kSparsePaths));

constexpr std::string_view to_string(SparsePath path) noexcept {
  return name_in(kSparsePaths, path);
}

/// The sizes that the choice depends on.
struct SparseLoad {
  std::size_t ranks = 1;
  std::size_t rows = 0;          ///< Of all ranks together, as they are sent.
  std::size_t union_rows = 0;    ///< Different indices of all ranks; an estimate.
  std::int64_t table_rows = -1;  ///< Negative: not known, or not allowed.
  std::size_t row_bytes = 0;
};

/// Bytes that a rank moves, and a quarter of those that it adds up, by a path that is not kAuto.
double sparse_cost(SparsePath path, const SparseLoad& load) noexcept;

/// The path with the lowest cost. Dense needs `table_rows`.
SparsePath choose_sparse_path(const SparseLoad& load) noexcept;

/// A short description of one rank's indices, the same size for any number of them.
struct IndexSample {
  static constexpr std::size_t kSize = 64;
  std::int64_t count = 0;                             ///< Of groups.
  std::array<std::int64_t, kSize> smallest_hashes{};  ///< Ascending; the first `count` of them.
  std::array<std::int64_t, kSize> quantiles{};        ///< Ascending; of no use without rows.

  /// That of rows that are grouped.
  static IndexSample of(const RowSums& rows);
};

/// The number of different indices, exact where no rank has more than kSize, else within about an
/// eighth.
std::size_t estimate_union(std::span<const IndexSample> samples);

/// The first index of each rank's share: about equally many rows. The first is 0.
std::vector<std::int64_t> share_begins(std::span<const IndexSample> samples);

}  // namespace ronde
