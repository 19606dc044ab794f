// The sizes that ranks exchange before an operation: first extents of allgather and gather, splits
// of alltoall. Pure functions over the exchanged numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/ports/executor.h"

namespace ronde {

/// Extent of the outermost dimension; 1 for no dimensions.
std::int64_t first_extent(const Shape& shape) noexcept;

/// Elements of one row: the product of all extents but the outermost.
std::int64_t row_elements(const Shape& shape) noexcept;

/// `shape` with another first extent; one dimension where it had none.
Shape with_first_extent(const Shape& shape, std::int64_t extent);

/// Rows of rank `index` if `rows` are divided among `size` ranks: the first have one more.
std::int64_t even_rows(std::int64_t rows, int size, int index) noexcept;

/// How many numbers describe a rank's side of one alltoall among `size` ranks.
std::size_t alltoall_numbers(int size) noexcept;

/// Appends those numbers: whether and how the splits are wrong, and the rows for each rank.
void append_alltoall(const BundleTensor& tensor, int size, std::vector<std::int64_t>& numbers);

/// Checks all ranks' numbers of one alltoall; `numbers` holds alltoall_numbers() of each rank, by
/// rank. Gives the same answer on every rank. Errors: kInvalidArgument naming the first rank at
/// fault and what it gave.
Status check_alltoall(int size, std::span<const std::int64_t> numbers);

/// Rows that `from` sends to `to`, in numbers that were checked.
std::int64_t alltoall_rows(std::span<const std::int64_t> numbers, int size, int from,
                           int to) noexcept;

}  // namespace ronde
