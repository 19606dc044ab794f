// The conformance suite over Gloo's point-to-point, and over Gloo's own collectives but for what
// those cannot promise: 16-bit averages that are rounded once.
#include "tests/conformance/conformance.h"

#include "backends/gloo/factory.h"
#include "tests/support/local_exchange.h"
#include "tests/support/plain_kernels.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {
namespace {

struct GlooFixture : ConformanceFixture {
  void run(int ranks, const RankBody& body) override {
    const LocalJob job(ranks);
    run_ranks(ranks, [&](int rank) {
      const auto backend = create_gloo_backend(
          {.network_interface = "", .kernels = plain_kernels(), .unprotected = false});
      const auto exchange = job.exchange(rank);
      body(rank, *backend, job.group(rank), *exchange);
    });
  }
};

struct NativeFixture : GlooFixture {
  std::string algorithm() const override { return "native"; }
  bool same_bits() const override { return false; }
};

}  // namespace

RONDE_CONFORMANCE("gloo", GlooFixture)
RONDE_HOST_CONFORMANCE("gloo", GlooFixture)

RONDE_CONFORMANCE_CASE_("gloo native: allreduce of every type, op and count", NativeFixture,
                        conformance_allreduce)
RONDE_CONFORMANCE_CASE_("gloo native: allreduce of large tensors", NativeFixture,
                        conformance_large_allreduce)
RONDE_CONFORMANCE_CASE_("gloo native: factors are applied before and after", NativeFixture,
                        conformance_scaling)
RONDE_CONFORMANCE_CASE_("gloo native: a NaN of any rank reaches every rank", NativeFixture,
                        conformance_not_a_number)
RONDE_CONFORMANCE_CASE_("gloo native: bundles of several tensors", NativeFixture, conformance_fused)
RONDE_CONFORMANCE_CASE_("gloo native: a joined rank counts as zeros", NativeFixture,
                        conformance_joined)
RONDE_CONFORMANCE_CASE_("gloo native: reduce to every root", NativeFixture, conformance_reduce)
RONDE_CONFORMANCE_CASE_("gloo native: broadcast from every root", NativeFixture,
                        conformance_broadcast)
RONDE_CONFORMANCE_CASE_("gloo native: allgather of uneven parts", NativeFixture,
                        conformance_allgather)
RONDE_CONFORMANCE_CASE_("gloo native: alltoall with even and uneven splits", NativeFixture,
                        conformance_alltoall)
RONDE_CONFORMANCE_CASE_("gloo native: barrier", NativeFixture, conformance_barrier)
RONDE_CONFORMANCE_CASE_("gloo native: abort ends every wait", NativeFixture, conformance_abort)

}  // namespace ronde::test
