// Conformance: sparse allreduces, against the dense sum of the same rows.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>

#include "tests/conformance/rank.h"

namespace ronde::test {
namespace {

constexpr std::int64_t kWidth = 3;

/// Indices of one rank: duplicates, some that all ranks have, and none on rank 1.
std::vector<std::int64_t> indices_of(int rank, std::int64_t table, std::size_t many) {
  if (rank == 1) return {};
  std::vector<std::int64_t> indices{3, 0, 3, table - 1, rank + 4};
  for (std::size_t i = 0; i < many; ++i) {
    const auto place = static_cast<std::int64_t>(i * i * 7 + static_cast<std::size_t>(rank));
    indices.push_back(8 + place % (table - 9));
  }
  return indices;
}

double value_of(int rank, std::size_t row, std::int64_t column) {
  return 1 + static_cast<double>((static_cast<std::size_t>(rank) + row) % 2) * (column == 1);
}

struct Rows {
  std::int64_t table = 40;
  std::size_t many = 0;
  double factor = 1;  // of each value

  [[nodiscard]] Bytes of(DType dtype, int rank) const {
    const std::size_t count = indices_of(rank, table, many).size();
    Bytes values(count * kWidth * size_of(dtype));
    for (std::size_t i = 0; i < count; ++i) {
      for (std::int64_t column = 0; column < kWidth; ++column) {
        put(dtype, values, i * kWidth + static_cast<std::size_t>(column),
            factor * value_of(rank, i, column));
      }
    }
    return values;
  }
  /// The sums by index, each of kWidth elements.
  [[nodiscard]] std::map<std::int64_t, std::vector<double>> sums(int ranks) const {
    std::map<std::int64_t, std::vector<double>> sums;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto indices = indices_of(rank, table, many);
      for (std::size_t i = 0; i < indices.size(); ++i) {
        auto& sum = sums.try_emplace(indices[i], kWidth, 0.0).first->second;
        for (std::int64_t column = 0; column < kWidth; ++column) {
          sum[static_cast<std::size_t>(column)] += factor * value_of(rank, i, column);
        }
      }
    }
    return sums;
  }
};

/// A sparse allreduce of one rank, and its result.
struct SparseCall {
  explicit SparseCall(DType dtype, ReduceOp op = ReduceOp::kSum)
      : bundle(bundle_of(Collective::kSparseAllreduce, dtype, op)), outputs(dtype) {}

  /// `rows_and_size`: indices, and last the table's size.
  void give(const Bytes& values, std::vector<std::int64_t> rows_and_size, std::int64_t rows) {
    numbers = std::move(rows_and_size);
    BundleTensor tensor;
    tensor.name = "rows";
    tensor.in = values.empty() ? nullptr : values.data();
    tensor.shape = {rows, kWidth};
    tensor.splits = numbers;
    tensor.recv_splits = &indices;
    bundle.tensors = {tensor};
    outputs.serve(bundle.tensors[0], 0);
  }

  Bundle bundle;
  Outputs outputs;
  std::vector<std::int64_t> numbers;
  std::vector<std::int64_t> indices;
};

void check_sums(const Rank& rank, DType dtype, const Rows& rows, ReduceOp op) {
  SparseCall call(dtype, op);
  const Bytes values = rows.of(dtype, rank.rank());
  std::vector<std::int64_t> numbers = indices_of(rank.rank(), rows.table, rows.many);
  const auto count = static_cast<std::int64_t>(numbers.size());
  numbers.push_back(rows.table);
  call.give(values, numbers, count);
  REQUIRE(rank.run(call.bundle).ok());
  const auto wanted = rows.sums(rank.size());
  const std::string where = fmt::format("{} {} of {}", to_string(op), to_string(dtype), rows.many);
  REQUIRE(call.indices.size() == wanted.size());
  CHECK(call.outputs.shape(0) == Shape{static_cast<std::int64_t>(wanted.size()), kWidth});
  std::size_t at = 0;
  for (const auto& [index, sums] : wanted) {
    CHECK(call.indices[at] == index);
    for (std::size_t column = 0; column < kWidth; ++column) {
      double exact = op == ReduceOp::kAverage ? sums[column] / rank.size() : sums[column];
      if (dtype == DType::kBool) exact = 1;
      const double got = get(dtype, call.outputs.bytes(0), at * kWidth + column);
      const double allowed = is_float8(dtype) ? exact / 4 : 0;  // 11 is none of theirs
      if (std::abs(got - exact) > allowed) {
        rank.expect_no(fmt::format("row {} has {}, not {}", index, got, exact), where);
        return;
      }
    }
    ++at;
  }
  rank.expect_same_bits(call.outputs.bytes(0), where);
}

/// A call that is an error on all ranks, as rank `culprit` gives `wrong` numbers.
Status run_wrong(const Rank& rank, int culprit, const std::vector<std::int64_t>& wrong) {
  SparseCall call(DType::kFloat32);
  const Bytes values(kWidth * sizeof(float));
  call.give(values, rank.rank() == culprit ? wrong : std::vector<std::int64_t>{2, 10}, 1);
  return rank.run(call.bundle);
}

void check_wrong(const Rank& rank) {
  const int last = rank.size() - 1;
  Status status = run_wrong(rank, last, {10, 10});
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message() ==
        fmt::format("rank {} of the group gave index 10; allowed: 0 to 9", last));
  status = run_wrong(rank, last, {-1, -1});
  CHECK(status.message() ==
        fmt::format("rank {} of the group gave index -1; allowed: 0 and above", last));
  status = run_wrong(rank, last, {1, 2, 10});
  CHECK(status.message() == fmt::format("rank {} of the group gave 2 indices for 1 rows", last));
  if (rank.size() == 1) return;
  status = run_wrong(rank, last, {1, 11});
  CHECK(status.code() == Code::kMismatch);
  CHECK(status.message() ==
        fmt::format("rank 0 of the group has a tensor of 10 rows, rank {} one of 11", last));
  status = run_wrong(rank, last, {100'000, -1});  // it does not know the size
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message() ==
        fmt::format("rank {} of the group gave index 100000; allowed: 0 to 9", last));
}

/// Two rows of one rank have a sum that their type cannot hold; the average fits.
void check_own_repeats(const Rank& rank, DType dtype, double value) {
  if (rank.size() == 1) return;
  SparseCall call(dtype, ReduceOp::kAverage);
  const std::size_t rows = rank.rank() == 0 ? 2 : 1;
  Bytes values(rows * kWidth * size_of(dtype));
  for (std::size_t i = 0; i < rows * kWidth; ++i) {
    put(dtype, values, i, rank.rank() == 0 ? value : 0);
  }
  const std::vector<std::int64_t> others{5, 10};
  call.give(values, rank.rank() == 0 ? std::vector<std::int64_t>{3, 3, 10} : others,
            static_cast<std::int64_t>(rows));
  REQUIRE(rank.run(call.bundle).ok());
  CHECK(call.indices == std::vector<std::int64_t>{3, 5});
  const double mean = 2 * value / rank.size();
  const double got = get(dtype, call.outputs.bytes(0), 0);
  CHECK(got == doctest::Approx(is_floating(dtype) ? mean : std::trunc(mean)).epsilon(1e-3));
}

/// The last rank has joined: it gives nothing, and gets nothing.
void check_joined_rows(const Rank& rank) {
  SparseCall call(DType::kFloat32);
  Bytes values(kWidth * sizeof(float));
  for (std::size_t i = 0; i < kWidth; ++i) put(DType::kFloat32, values, i, 2);
  call.give(values, {rank.rank(), 10}, 1);
  if (rank.size() > 1 && rank.rank() == rank.size() - 1) {
    BundleTensor absent;
    absent.shape = {1, kWidth};
    call.bundle.tensors = {absent};
    CHECK(rank.run(call.bundle).ok());
    return;
  }
  REQUIRE(rank.run(call.bundle).ok());
  CHECK(call.indices.size() == static_cast<std::size_t>(std::max(rank.size() - 1, 1)));
  CHECK(get(DType::kFloat32, call.outputs.bytes(0), 0) == 2);
}

/// A rank of weight 0 may hold anything.
void check_weighted_rows(const Rank& rank) {
  SparseCall call(DType::kFloat32, ReduceOp::kAverage);
  call.bundle.weighted = true;
  const bool none = rank.rank() == 1;
  Bytes values(kWidth * sizeof(float));
  for (std::size_t i = 0; i < kWidth; ++i) {
    put(DType::kFloat32, values, i, none ? std::numeric_limits<double>::quiet_NaN() : 8);
  }
  call.give(values, {7, 10}, 1);
  const int others = rank.size() > 1 ? rank.size() - 1 : 1;
  call.bundle.tensors[0].weight = none ? 0 : 1.0 / others;
  REQUIRE(rank.run(call.bundle).ok());
  CHECK(get(DType::kFloat32, call.outputs.bytes(0), 1) == doctest::Approx(8).epsilon(1e-6));
}

}  // namespace

void conformance_sparse(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    for (const DType dtype : all_dtypes()) check_sums(rank, dtype, {}, ReduceOp::kSum);
    for (const std::size_t many : {300U, 5'000U}) {
      check_sums(rank, DType::kFloat32, {.table = 4'000, .many = many}, ReduceOp::kSum);
    }
    const Rows equal{.factor = static_cast<double>(rank.size())};
    for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64,
                              DType::kInt32, DType::kUint8}) {
      check_sums(rank, dtype, equal, ReduceOp::kAverage);
    }
    check_wrong(rank);
    check_own_repeats(rank, DType::kInt8, 100);
    check_own_repeats(rank, DType::kUint8, 200);
    check_own_repeats(rank, DType::kInt16, 30'000);
    check_own_repeats(rank, DType::kInt32, 2e9);
    check_own_repeats(rank, DType::kFloat16, 60'000);
    check_joined_rows(rank);
    check_weighted_rows(rank);
    check_sums(rank, DType::kInt64, {}, ReduceOp::kSum);
  });
}

}  // namespace ronde::test
