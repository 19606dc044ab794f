// Sparse allreduces by each path, and the bytes that they move.
#include "ops/sparse/allreduce.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <vector>

#include "ops/communicator/algorithm.h"
#include "ops/kernels/factory.h"
#include "tests/ops/counting_transport.h"
#include "tests/ops/local_fixture.h"

namespace ronde::test {
namespace {

/// The local backend, with a path that is forced.
template <SparsePath kPath>
struct ByPath : LocalFixture {
  [[nodiscard]] std::unique_ptr<Executor> make_executor(ExecutorOptions options,
                                                        const GroupSpec& group,
                                                        Exchange& exchange) const override {
    options.sparse = kPath;
    return LocalFixture::make_executor(std::move(options), group, exchange);
  }
};
using ByKeys = ByPath<SparsePath::kKeys>;
using ByAllgather = ByPath<SparsePath::kAllgather>;
using ByTable = ByPath<SparsePath::kTable>;

constexpr std::size_t kColumns = 16;

/// A rank's rows of a table: drawn with a few frequent ones, as words are.
struct DrawnRows {
  DrawnRows(int rank, std::int64_t table, std::size_t shared, std::size_t own) {
    for (std::size_t i = 0; i < shared; ++i) {
      indices.push_back(static_cast<std::int64_t>(i * i) % table);
    }
    std::mt19937 random(static_cast<unsigned>(rank));
    for (std::size_t i = 0; i < own; ++i) {
      indices.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(table)));
    }
    values.resize(indices.size() * kColumns);
    for (float& value : values) value = static_cast<float>(random() % 1000) / 8;
    indices.push_back(table);
  }
  std::vector<std::int64_t> indices;  // and the table's size
  std::vector<float> values;
};

struct Summed {
  std::vector<std::int64_t> indices;
  std::vector<float> values;
  SparsePath path = SparsePath::kAuto;
};

/// Adds up over a transport.
Summed add_up(Transport& transport, const DrawnRows& rows, SparsePath path) {
  const auto kernels = create_kernels();
  AlgorithmCommunicator host(
      transport, {.kernels = kernels, .rank = transport.rank(), .size = transport.size()});
  NumberExchange exchange(host, transport.size());
  SparseAllreduce allreduce(host, exchange, kernels,
                            {.rank = transport.rank(), .size = transport.size(), .path = path});
  Summed summed;
  const OutputAllocator allocate = [&](std::size_t, const Shape& shape) -> Result<void*> {
    summed.values.resize(static_cast<std::size_t>(element_count(shape)));
    return static_cast<void*>(summed.values.data());
  };
  BundleTensor tensor;
  tensor.in = rows.values.data();
  tensor.shape = {static_cast<std::int64_t>(rows.indices.size()) - 1, kColumns};
  tensor.splits = rows.indices;
  tensor.recv_splits = &summed.indices;
  tensor.allocate = &allocate;
  const SparseWork work{.tensor = tensor, .width = kColumns};
  const AbortToken abort;
  summed.path = allreduce.plan(work, abort).value();
  CHECK(allreduce.run(work, nullptr, abort).ok());
  return summed;
}

/// The most bytes that a rank of `ranks` sends.
std::size_t most_bytes(int ranks, SparsePath path) {
  std::vector<Summed> summed(static_cast<std::size_t>(ranks));
  const auto traffic = count_traffic(ranks, [&](Transport& transport, Scratch&) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    // Nine in ten rows are common to all ranks: the union is below 1.5 times a rank's.
    const DrawnRows rows(transport.rank(), 100'000, 2'700, 120);
    summed[rank] = add_up(transport, rows, path);
  });
  for (const Summed& one : summed) {
    CHECK(one.indices == summed[0].indices);
    CHECK(one.values == summed[0].values);
  }
  std::size_t most = 0;
  for (const Traffic& one : traffic) most = std::max(most, one.bytes);
  return most;
}

}  // namespace

RONDE_CONFORMANCE_CASE_("sparse by keys: sums, errors and joined ranks", ByKeys, conformance_sparse)
RONDE_CONFORMANCE_CASE_("sparse by allgather: sums, errors and joined ranks", ByAllgather,
                        conformance_sparse)
RONDE_CONFORMANCE_CASE_("sparse by table: sums, errors and joined ranks", ByTable,
                        conformance_sparse)

TEST_CASE("sparse: bytes by keys hardly grow with the ranks, where indices are shared") {
  // A rank keeps its own share, 1/n: that alone makes 1.75 times as many of 8 ranks as of 2.
  const auto sent = [](int ranks, SparsePath path) {
    return static_cast<double>(most_bytes(ranks, path)) * ranks / (ranks - 1);
  };
  const double two = sent(2, SparsePath::kKeys);
  const double eight = sent(8, SparsePath::kKeys);
  CHECK(eight / two < 1.5);
  const double gathered = sent(8, SparsePath::kAllgather);
  CHECK(gathered / sent(2, SparsePath::kAllgather) > 3.9);
  CHECK(gathered / eight > 3);
  MESSAGE("bytes sent of 2 and 8 ranks by keys: " << two / 2 << " and " << eight * 7 / 8
                                                  << ", by allgather " << gathered * 7 / 8);
}

TEST_CASE("sparse: all paths give the same sums, and auto takes keys for many ranks") {
  std::vector<Summed> by_path(4);
  for (const SparsePathRow& row : kSparsePaths) {
    count_traffic(5, [&](Transport& transport, Scratch&) {
      const DrawnRows rows(transport.rank(), 100'000, 1'000, 500);
      Summed summed = add_up(transport, rows, row.value);
      if (transport.rank() == 0) by_path[static_cast<std::size_t>(row.value)] = std::move(summed);
    });
  }
  CHECK(by_path[0].path == SparsePath::kKeys);
  for (const Summed& one : by_path) {
    CHECK(one.indices == by_path[0].indices);
    CHECK(one.values == by_path[0].values);
  }
}

}  // namespace ronde::test
