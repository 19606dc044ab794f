// The conformance suite over shared memory: its own collectives, and the algorithms of ops/ over
// its transport.
#include "tests/conformance/conformance.h"

#include "backends/shm/factory.h"
#include "ops/kernels/factory.h"
#include "tests/support/local_exchange.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {
namespace {

struct ShmFixture : ConformanceFixture {
  void run(int ranks, const RankBody& body) override {
    const LocalJob job(ranks);
    run_ranks(ranks, [&](int rank) {
      const auto backend = create_shm_backend(create_kernels());
      const auto exchange = job.exchange(rank);
      body(rank, *backend, job.group(rank), *exchange);
    });
  }
};

struct ShmRingFixture : ShmFixture {
  std::string algorithm() const override { return "ring"; }
};

}  // namespace

RONDE_CONFORMANCE("shm", ShmFixture)
RONDE_CONFORMANCE("shm, ring", ShmRingFixture)

}  // namespace ronde::test
