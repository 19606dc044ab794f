// Conformance: everything that only moves bytes.
#include <fmt/format.h>

#include <numeric>

#include "tests/conformance/rank.h"

namespace ronde::test {
namespace {

constexpr std::int64_t kColumns = 3;

BundleTensor rows_tensor(const Bytes& in, std::int64_t rows) {
  BundleTensor tensor;
  tensor.name = "rows";
  tensor.in = in.data();
  tensor.shape = {rows, kColumns};
  return tensor;
}

// Rows of int32 that say where they come from and where they go.
Bytes rows_between(int from, int to, std::int64_t rows) {
  return pattern(from * 100 + to, static_cast<std::size_t>(rows * kColumns) * 4);
}

void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

// Rows that rank `rank` gives to an uneven allgather: none on some ranks.
std::int64_t rows_of(int rank, std::int64_t unit) { return rank % 3 == 1 ? 0 : (rank + 1) * unit; }

void check_gathered(const Rank& rank, Collective kind, std::int64_t unit, int root) {
  const std::int64_t mine = rows_of(rank.rank(), unit);
  const Bytes in = rows_between(rank.rank(), 0, mine);
  Bundle bundle = bundle_of(kind, DType::kInt32, ReduceOp::kSum, root);
  bundle.tensors = {rows_tensor(in, mine)};
  Outputs outputs(DType::kInt32);
  outputs.serve(bundle.tensors[0], 0);
  REQUIRE(rank.run(bundle).ok());
  const bool writes = kind == Collective::kAllgather || rank.rank() == root;
  CHECK(outputs.asked(0) == writes);
  if (!writes) return;
  Bytes wanted;
  std::int64_t rows = 0;
  for (int from = 0; from < rank.size(); ++from) {
    append(wanted, rows_between(from, 0, rows_of(from, unit)));
    rows += rows_of(from, unit);
  }
  CHECK(outputs.shape(0) == Shape{rows, kColumns});
  rank.expect_no(compare_bytes(outputs.bytes(0), wanted), fmt::format("unit {}", unit));
}

using Splits = std::function<std::int64_t(int from, int to)>;

void check_alltoall(const Rank& rank, const Splits& rows, bool say_splits) {
  Bytes in;
  Bytes wanted;
  std::vector<std::int64_t> splits;
  std::vector<std::int64_t> sources;
  for (int peer = 0; peer < rank.size(); ++peer) {
    splits.push_back(rows(rank.rank(), peer));
    sources.push_back(rows(peer, rank.rank()));
    append(in, rows_between(rank.rank(), peer, splits.back()));
    append(wanted, rows_between(peer, rank.rank(), sources.back()));
  }
  Bundle bundle = bundle_of(Collective::kAlltoall, DType::kInt32);
  bundle.tensors = {rows_tensor(in, std::accumulate(splits.begin(), splits.end(), 0L))};
  if (say_splits) bundle.tensors[0].splits = splits;
  std::vector<std::int64_t> received{-1};
  bundle.tensors[0].recv_splits = &received;
  Outputs outputs(DType::kInt32);
  outputs.serve(bundle.tensors[0], 0);
  REQUIRE(rank.run(bundle).ok());
  CHECK(received == sources);
  rank.expect_no(compare_bytes(outputs.bytes(0), wanted), "alltoall");
}

}  // namespace

void conformance_broadcast(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    for (int root = 0; root < rank.size(); ++root) {
      for (const std::size_t count : {0U, 1U, 1009U, 700'001U}) {
        for (const Place place : {Place::kIn, Place::kOut}) {
          const Bytes out =
              rank.run_one(bundle_of(Collective::kBroadcast, DType::kUint8, ReduceOp::kSum, root),
                           pattern(rank.rank(), count), place, count);
          rank.expect_no(compare_bytes(out, pattern(root, count)),
                         fmt::format("{} bytes from root {}", count, root));
        }
      }
    }
  });
}

void conformance_allgather(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    for (const std::int64_t unit : {0, 1, 13, 1009, 10'007}) {
      check_gathered(rank, Collective::kAllgather, unit, 0);
    }
    const Bytes scalar = pattern(rank.rank(), 8);
    Bundle bundle = bundle_of(Collective::kAllgather, DType::kInt64);
    BundleTensor tensor;
    tensor.name = "scalar";
    tensor.in = scalar.data();
    bundle.tensors = {tensor};
    Outputs outputs(DType::kInt64);
    outputs.serve(bundle.tensors[0], 0);
    REQUIRE(rank.run(bundle).ok());
    Bytes wanted;
    for (int from = 0; from < rank.size(); ++from) append(wanted, pattern(from, 8));
    CHECK(outputs.shape(0) == Shape{rank.size()});
    rank.expect_no(compare_bytes(outputs.bytes(0), wanted), "scalar");
  });
}

void conformance_gather_scatter(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    for (int root = 0; root < rank.size(); ++root) {
      for (const std::int64_t unit : {1, 1009}) {
        check_gathered(rank, Collective::kGather, unit, root);
      }
      for (const std::int64_t rows : {0, 1, 5003}) {
        Bytes in;
        for (int to = 0; to < rank.size(); ++to) append(in, rows_between(root, to, rows));
        Bytes out(static_cast<std::size_t>(rows * kColumns) * 4);
        Bundle bundle = bundle_of(Collective::kScatter, DType::kInt32, ReduceOp::kSum, root);
        bundle.tensors = {rows_tensor(in, rows)};
        if (rank.rank() != root) bundle.tensors[0].in = nullptr;
        bundle.tensors[0].out = out.data();
        REQUIRE(rank.run(bundle).ok());
        rank.expect_no(compare_bytes(out, rows_between(root, rank.rank(), rows)), "scatter");
      }
    }
  });
}

void conformance_alltoall(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    for (const std::int64_t rows : {0, 1, 7, 5003}) {
      check_alltoall(
          rank, [&](int, int) { return rows; }, false);
      check_alltoall(
          rank, [&](int, int) { return rows; }, true);
      check_alltoall(
          rank, [&](int from, int to) { return (from + 2 * to) % 4 * rows; }, true);
      check_alltoall(
          rank, [&](int from, int to) { return from == to ? 0 : rows; }, true);
    }
  });
}

void conformance_wrong_splits(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    const auto size = static_cast<std::size_t>(rank.size());
    const bool guilty = rank.rank() == rank.size() - 1;
    const std::vector<std::int64_t> good(size, 1);
    std::vector<std::vector<std::int64_t>> wrong(4, good);
    wrong[0][0] = 2;        // sums to one too many
    wrong[1].push_back(0);  // one for a rank that there is not
    wrong[2][0] = -1;       // negative
    wrong[3][0] = 0;        // sums to one too few
    const Bytes in = pattern(0, size * kColumns * 4);
    for (const auto& splits : wrong) {
      Bytes out(in.size());
      Bundle bundle = bundle_of(Collective::kAlltoall, DType::kInt32);
      bundle.tensors = {rows_tensor(in, rank.size())};
      bundle.tensors[0].splits = guilty ? splits : good;
      bundle.tensors[0].out = out.data();
      const Status status = rank.run(bundle);
      CHECK(status.code() == Code::kInvalidArgument);
      const std::string last = fmt::format("rank {}", rank.size() - 1);
      CHECK(status.message().find(last) != std::string::npos);
      check_alltoall(
          rank, [](int, int) { return 2; }, true);
    }
    if (rank.size() == 1) return;
    Bundle uneven = bundle_of(Collective::kAlltoall, DType::kInt32);
    uneven.tensors = {rows_tensor(in, guilty ? rank.size() - 1 : rank.size())};
    Bytes out(in.size());
    uneven.tensors[0].out = out.data();
    CHECK(rank.run(uneven).code() == Code::kInvalidArgument);
    check_alltoall(
        rank, [](int, int) { return 2; }, false);
  });
}

}  // namespace ronde::test
