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
  [[nodiscard]] virtual ShmOptions options() const { return {}; }
  void run(int ranks, const RankBody& body) override {
    const LocalJob job(ranks);
    run_ranks(ranks, [&](int rank) {
      const auto backend = create_shm_backend(create_kernels(), options());
      const auto exchange = job.exchange(rank);
      body(rank, *backend, job.group(rank), *exchange);
    });
  }
};

struct ShmRingFixture : ShmFixture {
  std::string algorithm() const override { return "ring"; }
  double mean_ulps() const override { return 2; }
};

struct SingleCopyFixture : ShmFixture {
  ShmOptions options() const override { return {.single_copy = SingleCopy::kAlways}; }
};

struct StagedFixture : ShmFixture {
  ShmOptions options() const override {
    return {.single_copy = SingleCopy::kNever, .arenas = false};
  }
};

struct CheckedFixture : ShmFixture {
  ShmOptions options() const override { return {.checksums = true}; }
};

struct CheckedRingFixture : CheckedFixture {
  std::string algorithm() const override { return "ring"; }
  double mean_ulps() const override { return 2; }
};

}  // namespace

RONDE_CONFORMANCE("shm, checksums", CheckedFixture)
RONDE_CONFORMANCE("shm, ring, checksums", CheckedRingFixture)
RONDE_HOST_CONFORMANCE("shm, checksums", CheckedFixture)
RONDE_CONFORMANCE("shm", ShmFixture)
RONDE_CONFORMANCE("shm, ring", ShmRingFixture)
RONDE_CONFORMANCE("shm, single copy", SingleCopyFixture)
RONDE_CONFORMANCE("shm, staged", StagedFixture)
RONDE_HOST_CONFORMANCE("shm", ShmFixture)
RONDE_HOST_CONFORMANCE("shm, ring", ShmRingFixture)
RONDE_HOST_CONFORMANCE("shm, single copy", SingleCopyFixture)
RONDE_HOST_CONFORMANCE("shm, staged", StagedFixture)

}  // namespace ronde::test
