// Ranks as threads, from tests/support/local: what the algorithms of ops/ are tested on.
#pragma once

#include <memory>
#include <string>

#include "tests/conformance/conformance.h"
#include "tests/support/local/factory.h"
#include "tests/support/local_exchange.h"
#include "tests/support/plain_kernels.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {

/// The conformance fixture of the local backend; algorithms by override.
class LocalFixture : public ConformanceFixture {
 public:
  explicit LocalFixture(std::string algorithm = {}) : algorithm_(std::move(algorithm)) {}

  void run(int ranks, const RankBody& body) override {
    const LocalJob job(ranks);
    const auto hub = create_local_hub(ranks);
    run_ranks(ranks, [&](int rank) {
      const auto backend = create_local_backend(hub, rank);
      const auto exchange = job.exchange(rank);
      body(rank, *backend, job.group(rank), *exchange);
    });
  }

  [[nodiscard]] std::string algorithm() const override { return algorithm_; }

 private:
  const std::string algorithm_;
};

}  // namespace ronde::test
