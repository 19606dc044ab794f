// The conformance suite over NCCL's double. Left out is what NCCL does not promise: 16-bit averages
// that are rounded once.
#include "tests/backends/nccl/nccl_fixture.h"

namespace ronde::test {

RONDE_CONFORMANCE_CASE_("nccl: allreduce of every type, op and count", NcclFixture,
                        conformance_allreduce)
RONDE_CONFORMANCE_CASE_("nccl: allreduce of large tensors", NcclFixture,
                        conformance_large_allreduce)
RONDE_CONFORMANCE_CASE_("nccl: factors are applied before and after", NcclFixture,
                        conformance_scaling)
RONDE_CONFORMANCE_CASE_("nccl: a NaN of any rank reaches every rank", NcclFixture,
                        conformance_not_a_number)
RONDE_CONFORMANCE_CASE_("nccl: bundles of several tensors, some empty", NcclFixture,
                        conformance_fused)
RONDE_CONFORMANCE_CASE_("nccl: a joined rank counts as zeros", NcclFixture, conformance_joined)
RONDE_CONFORMANCE_CASE_("nccl: reduce to every root", NcclFixture, conformance_reduce)
RONDE_CONFORMANCE_CASE_("nccl: broadcast from every root", NcclFixture, conformance_broadcast)
RONDE_CONFORMANCE_CASE_("nccl: allgather of uneven parts", NcclFixture, conformance_allgather)
RONDE_CONFORMANCE_CASE_("nccl: gather to and scatter from every root", NcclFixture,
                        conformance_gather_scatter)
RONDE_CONFORMANCE_CASE_("nccl: reduce_scatter gives the first ranks one row more", NcclFixture,
                        conformance_reduce_scatter)
RONDE_CONFORMANCE_CASE_("nccl: alltoall with even and uneven splits", NcclFixture,
                        conformance_alltoall)
RONDE_CONFORMANCE_CASE_("nccl: wrong splits are an error on all ranks, and work goes on",
                        NcclFixture, conformance_wrong_splits)
RONDE_CONFORMANCE_CASE_("nccl: a long mixed sequence without synchronisation", NcclFixture,
                        conformance_sequence)

}  // namespace ronde::test
