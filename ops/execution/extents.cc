#include "ops/execution/extents.h"

#include <fmt/format.h>

#include <algorithm>

namespace ronde {

namespace {

// Numbers before the rows for each rank: Fault, first extent, detail.
constexpr std::size_t kHeaderNumbers = 3;

enum class Fault : std::int64_t { kNone, kScalar, kUneven, kCount, kNegative, kSum };

struct Verdict {
  Fault fault = Fault::kNone;
  std::int64_t detail = 0;
};

// The first split below zero, or their sum, which stops growing once it is over `rows`.
Verdict judge_values(std::span<const std::int64_t> splits, std::int64_t rows) {
  const auto negative =
      std::find_if(splits.begin(), splits.end(), [](std::int64_t split) { return split < 0; });
  if (negative != splits.end()) return {Fault::kNegative, *negative};
  std::int64_t left = rows;
  for (const std::int64_t split : splits) {
    if (split > left) return {Fault::kSum, rows - left + split};
    left -= split;
  }
  if (left != 0) return {Fault::kSum, rows - left};
  return {};
}

Verdict judge(const BundleTensor& tensor, int size) {
  if (tensor.shape.empty()) return {Fault::kScalar, 0};
  const std::int64_t rows = tensor.shape[0];
  if (tensor.splits.empty()) {
    return {rows % size == 0 ? Fault::kNone : Fault::kUneven, 0};
  }
  if (tensor.splits.size() != static_cast<std::size_t>(size)) {
    return {Fault::kCount, static_cast<std::int64_t>(tensor.splits.size())};
  }
  return judge_values(tensor.splits, rows);
}

std::string describe(Fault fault, std::int64_t rows, std::int64_t detail, int size) {
  switch (fault) {
    case Fault::kScalar:
      return "gave a tensor without dimensions; at least one is needed";
    case Fault::kUneven:
      return fmt::format("gave no splits, and its first extent {} does not divide by {} ranks",
                         rows, size);
    case Fault::kCount:
      return fmt::format("gave {} splits for {} ranks", detail, size);
    case Fault::kNegative:
      return fmt::format("gave the negative split {}", detail);
    default:
      return fmt::format("gave splits that sum to {} for a first extent of {}", detail, rows);
  }
}

}  // namespace

std::int64_t first_extent(const Shape& shape) noexcept { return shape.empty() ? 1 : shape[0]; }

std::int64_t row_elements(const Shape& shape) noexcept {
  std::int64_t count = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) count *= shape[i];
  return count;
}

Shape with_first_extent(const Shape& shape, std::int64_t extent) {
  if (shape.empty()) return {extent};
  Shape changed = shape;
  changed[0] = extent;
  return changed;
}

std::int64_t even_rows(std::int64_t rows, int size, int index) noexcept {
  return rows / size + (index < rows % size ? 1 : 0);
}

std::size_t alltoall_numbers(int size) noexcept {
  return kHeaderNumbers + static_cast<std::size_t>(size);
}

void append_alltoall(const BundleTensor& tensor, int size, std::vector<std::int64_t>& numbers) {
  const Verdict verdict = judge(tensor, size);
  const std::int64_t rows = first_extent(tensor.shape);
  numbers.insert(numbers.end(), {static_cast<std::int64_t>(verdict.fault), rows, verdict.detail});
  const bool even = tensor.splits.empty();
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
    const bool usable = verdict.fault == Fault::kNone;
    numbers.push_back(!usable ? 0 : even ? rows / size : tensor.splits[rank]);
  }
}

Status check_alltoall(int size, std::span<const std::int64_t> numbers) {
  for (int rank = 0; rank < size; ++rank) {
    const auto mine = numbers.subspan(static_cast<std::size_t>(rank) * alltoall_numbers(size));
    const auto fault = static_cast<Fault>(mine[0]);
    if (fault == Fault::kNone) continue;
    return {Code::kInvalidArgument,
            fmt::format("rank {} of the group {}", rank, describe(fault, mine[1], mine[2], size))};
  }
  return {};
}

std::int64_t alltoall_rows(std::span<const std::int64_t> numbers, int size, int from,
                           int to) noexcept {
  return numbers[static_cast<std::size_t>(from) * alltoall_numbers(size) + kHeaderNumbers +
                 static_cast<std::size_t>(to)];
}

}  // namespace ronde
