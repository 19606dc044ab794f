// The whole suite over threads: once as the table decides, and once for each algorithm's name.
#include "tests/conformance/conformance.h"

#include "tests/ops/local_fixture.h"

namespace ronde::test {
namespace {

/// Partial sums travel, rounded at every rank.
struct Travelling : LocalFixture {
  using LocalFixture::LocalFixture;
  [[nodiscard]] double mean_ulps() const override { return 2; }
};
struct Ring : Travelling {
  Ring() : Travelling("ring") {}
};
struct HalvingDoubling : Travelling {
  HalvingDoubling() : Travelling("halving_doubling") {}
};
struct Tree : Travelling {
  Tree() : Travelling("tree") {}
};
struct DoubleTree : Travelling {
  DoubleTree() : Travelling("double_tree") {}
};
struct Direct : LocalFixture {
  Direct() : LocalFixture("direct") {}
};
struct Bruck : LocalFixture {
  Bruck() : LocalFixture("bruck") {}
};

}  // namespace

RONDE_CONFORMANCE("local", LocalFixture)
RONDE_HOST_CONFORMANCE("local", LocalFixture)

RONDE_CONFORMANCE_CASE_("ring: allreduce of every type, op and count", Ring, conformance_allreduce)
RONDE_CONFORMANCE_CASE_("ring: allreduce of large tensors", Ring, conformance_large_allreduce)
RONDE_CONFORMANCE_CASE_("ring: factors are applied before and after", Ring, conformance_scaling)
RONDE_CONFORMANCE_CASE_("ring: 16-bit averages are rounded once", Ring, conformance_averages)
RONDE_CONFORMANCE_CASE_("ring: a NaN reaches every rank", Ring, conformance_not_a_number)
RONDE_CONFORMANCE_CASE_("ring: uneven allgather", Ring, conformance_allgather)
RONDE_CONFORMANCE_CASE_("ring: abort", Ring, conformance_abort)

RONDE_CONFORMANCE_CASE_("halving_doubling: allreduce of every type, op and count", HalvingDoubling,
                        conformance_allreduce)
RONDE_CONFORMANCE_CASE_("halving_doubling: allreduce of large tensors", HalvingDoubling,
                        conformance_large_allreduce)
RONDE_CONFORMANCE_CASE_("halving_doubling: factors are applied before and after", HalvingDoubling,
                        conformance_scaling)
RONDE_CONFORMANCE_CASE_("halving_doubling: 16-bit averages are rounded once", HalvingDoubling,
                        conformance_averages)
RONDE_CONFORMANCE_CASE_("halving_doubling: a NaN reaches every rank", HalvingDoubling,
                        conformance_not_a_number)
RONDE_CONFORMANCE_CASE_("halving_doubling: abort", HalvingDoubling, conformance_abort)

RONDE_CONFORMANCE_CASE_("tree: allreduce of large tensors", Tree, conformance_large_allreduce)
RONDE_CONFORMANCE_CASE_("tree: 16-bit averages are rounded once", Tree, conformance_averages)
RONDE_CONFORMANCE_CASE_("double_tree: allreduce of every type, op and count", DoubleTree,
                        conformance_allreduce)
RONDE_CONFORMANCE_CASE_("double_tree: allreduce of large tensors", DoubleTree,
                        conformance_large_allreduce)
RONDE_CONFORMANCE_CASE_("double_tree: factors are applied before and after", DoubleTree,
                        conformance_scaling)
RONDE_CONFORMANCE_CASE_("double_tree: 16-bit averages are rounded once", DoubleTree,
                        conformance_averages)
RONDE_CONFORMANCE_CASE_("double_tree: a NaN reaches every rank", DoubleTree,
                        conformance_not_a_number)
RONDE_CONFORMANCE_CASE_("double_tree: abort", DoubleTree, conformance_abort)
RONDE_CONFORMANCE_CASE_("direct: allreduce of every type, op and count", Direct,
                        conformance_allreduce)
RONDE_CONFORMANCE_CASE_("direct: factors are applied before and after", Direct, conformance_scaling)
RONDE_CONFORMANCE_CASE_("direct: 16-bit averages are rounded once", Direct, conformance_averages)
RONDE_CONFORMANCE_CASE_("direct: reduce to every root", Direct, conformance_reduce)
RONDE_CONFORMANCE_CASE_("direct: reduce_scatter", Direct, conformance_reduce_scatter)
RONDE_CONFORMANCE_CASE_("direct: abort", Direct, conformance_abort)
RONDE_CONFORMANCE_CASE_("bruck: uneven allgather", Bruck, conformance_allgather)
RONDE_CONFORMANCE_CASE_("bruck: uneven alltoall", Bruck, conformance_alltoall)

RONDE_CONFORMANCE_CASE_("ring: the mean of equal values", Ring, conformance_means)
RONDE_CONFORMANCE_CASE_("halving_doubling: the mean of equal values", HalvingDoubling,
                        conformance_means)
RONDE_CONFORMANCE_CASE_("tree: the mean of equal values", Tree, conformance_means)
RONDE_CONFORMANCE_CASE_("double_tree: the mean of equal values", DoubleTree, conformance_means)
RONDE_CONFORMANCE_CASE_("direct: the mean of equal values", Direct, conformance_means)
}  // namespace ronde::test
