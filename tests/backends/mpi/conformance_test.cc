// The conformance suite over MPI's point-to-point, and over MPI's own collectives but for what
// those cannot promise. The ranks are the processes that mpirun started.
#include "tests/conformance/conformance.h"

#include "backends/mpi/factory.h"
#include "tests/backends/mpi/mpi_world.h"
#include "tests/support/plain_kernels.h"

namespace ronde::test {
namespace {

struct MpiFixture : ConformanceFixture {
  void run(int, const RankBody& body) override {
    const auto backend = create_mpi_backend(
        {.network_interface = "", .kernels = plain_kernels(), .unprotected = false});
    const GroupSpec group = MpiWorld::instance().group();
    MpiExchange exchange;
    body(group.rank, *backend, group, exchange);
  }
  std::vector<int> rank_counts() const override { return {MpiWorld::instance().size()}; }
};

struct NativeFixture : MpiFixture {
  std::string algorithm() const override { return "native"; }
  bool same_bits() const override { return false; }
};

}  // namespace

RONDE_CONFORMANCE("mpi", MpiFixture)
RONDE_HOST_CONFORMANCE("mpi", MpiFixture)

RONDE_CONFORMANCE_CASE_("mpi native: allreduce of every type, op and count", NativeFixture,
                        conformance_allreduce)
RONDE_CONFORMANCE_CASE_("mpi native: allreduce of large tensors", NativeFixture,
                        conformance_large_allreduce)
RONDE_CONFORMANCE_CASE_("mpi native: factors are applied before and after", NativeFixture,
                        conformance_scaling)
RONDE_CONFORMANCE_CASE_("mpi native: a NaN of any rank reaches every rank", NativeFixture,
                        conformance_not_a_number)
RONDE_CONFORMANCE_CASE_("mpi native: bundles of several tensors", NativeFixture, conformance_fused)
RONDE_CONFORMANCE_CASE_("mpi native: a joined rank counts as zeros", NativeFixture,
                        conformance_joined)
RONDE_CONFORMANCE_CASE_("mpi native: reduce to every root", NativeFixture, conformance_reduce)
RONDE_CONFORMANCE_CASE_("mpi native: broadcast from every root", NativeFixture,
                        conformance_broadcast)
RONDE_CONFORMANCE_CASE_("mpi native: allgather of uneven parts", NativeFixture,
                        conformance_allgather)
RONDE_CONFORMANCE_CASE_("mpi native: alltoall with even and uneven splits", NativeFixture,
                        conformance_alltoall)
RONDE_CONFORMANCE_CASE_("mpi native: barrier", NativeFixture, conformance_barrier)

}  // namespace ronde::test
