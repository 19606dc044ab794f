#include "ops/selection/selector.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace ronde {
namespace {

std::string chosen(Collective kind, std::size_t bytes, int ranks, std::string_view wish = {}) {
  const auto algorithm = select_algorithm(kind, bytes, ranks, wish);
  return algorithm.ok() ? std::string(algorithm.value()->name) : algorithm.status().to_string();
}

}  // namespace

TEST_CASE("select_algorithm: row by row") {
  CHECK(chosen(Collective::kAllreduce, 0, 8) == "tree");
  CHECK(chosen(Collective::kAllreduce, 4096, 8) == "tree");
  CHECK(chosen(Collective::kAllreduce, 4097, 8) == "halving_doubling");
  CHECK(chosen(Collective::kAllreduce, 256 << 10, 3) == "halving_doubling");
  CHECK(chosen(Collective::kAllreduce, (256 << 10) + 1, 3) == "ring");
  CHECK(chosen(Collective::kAllgather, 32 << 10, 4) == "bruck");
  CHECK(chosen(Collective::kAllgather, (32 << 10) + 1, 4) == "ring");
  CHECK(chosen(Collective::kBroadcast, 512 << 10, 4) == "binomial");
  CHECK(chosen(Collective::kBroadcast, 8 << 20, 2) == "binomial");
  CHECK(chosen(Collective::kBroadcast, 8 << 20, 3) == "chain");
  CHECK(chosen(Collective::kReduceScatter, 1, 2) == "ring");
  CHECK(chosen(Collective::kAlltoall, 1, 10) == "pairwise");
  CHECK(chosen(Collective::kAlltoall, 256 << 10, 11) == "bruck");
  CHECK(chosen(Collective::kAlltoall, (256 << 10) + 1, 11) == "pairwise");
  CHECK(chosen(Collective::kReduce, 256 << 10, 2) == "binomial");
  CHECK(chosen(Collective::kReduce, (256 << 10) + 1, 2) == "direct");
  CHECK(chosen(Collective::kGather, 1, 2) == "linear");
  CHECK(chosen(Collective::kScatter, 1, 2) == "linear");
  CHECK(chosen(Collective::kBarrier, 0, 2) == "dissemination");
}

TEST_CASE("select_algorithm: an override decides for the kinds that know it, and for those alone") {
  CHECK(chosen(Collective::kAllreduce, 4, 8, "ring") == "ring");
  CHECK(chosen(Collective::kAllgather, 4, 8, "ring") == "ring");
  CHECK(chosen(Collective::kBroadcast, 4, 8, "ring") == "binomial");
  CHECK(chosen(Collective::kAllreduce, 4, 8, "native") == "tree");
}

TEST_CASE("exact_algorithm: averages of few ranks are reduced at once") {
  const Scaling third{.pre = 1.0, .post = 1.0 / 3};
  CHECK(exact_algorithm({DType::kFloat32, ReduceOp::kSum, third}, 8) == "direct");
  CHECK(exact_algorithm({DType::kFloat64, ReduceOp::kSum, {}, true}, 2) == "direct");
  CHECK(exact_algorithm({DType::kFloat32, ReduceOp::kSum, third}, 9).empty());
  CHECK(exact_algorithm({DType::kFloat32, ReduceOp::kSum, {}}, 3).empty());
  CHECK(exact_algorithm({DType::kFloat32, ReduceOp::kMax, third}, 3).empty());
  CHECK(exact_algorithm({DType::kBfloat16, ReduceOp::kSum, third}, 3).empty());
  CHECK(exact_algorithm({DType::kInt32, ReduceOp::kSum, third}, 3).empty());
}

TEST_CASE("select_algorithm: an unknown override is an error that lists what is allowed") {
  const Status status = select_algorithm(Collective::kAllreduce, 4, 8, "rign").status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message() ==
        "algorithm 'rign' is not known; allowed: native, hierarchical, tree, halving_doubling, "
        "ring, double_tree, direct, "
        "bruck, binomial, chain, pairwise, linear, dissemination");
  CHECK(check_algorithm("rign").code() == Code::kInvalidArgument);
  CHECK(check_algorithm("").ok());
  CHECK(check_algorithm("native").ok());
  CHECK(check_algorithm("tree").ok());
}

TEST_CASE("select_algorithm: join has none") {
  CHECK(select_algorithm(Collective::kJoin, 0, 2, "").status().code() == Code::kUnsupported);
}

TEST_CASE("selection_table: every row names an algorithm, and the last of a kind fits anything") {
  for (const SelectionRow& row : selection_table()) {
    const auto known = algorithms();
    CHECK(std::any_of(known.begin(), known.end(), [&](const Algorithm& one) {
      return one.kind == row.kind && one.name == row.algorithm && one.run != nullptr;
    }));
    CHECK(select_algorithm(row.kind, std::size_t{1} << 40, 100'000, "").ok());
  }
  CHECK(describe_selection().size() == selection_table().size() + 2);
  CHECK(describe_selection().front() == "averages of float32 and float64 up to 8 ranks: direct");
}

}  // namespace ronde
