#include "bindings/cli/launch/elastic/epoch_text.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

elastic::BeginEpoch epoch_of(elastic::EpochId epoch, const std::vector<elastic::WorkerId>& workers,
                             const std::string& why = "") {
  elastic::BeginEpoch begun{epoch, {}, why};
  for (const elastic::WorkerId worker : workers) begun.workers.push_back({worker, "a"});
  return begun;
}

}  // namespace

TEST_CASE("epoch text: who goes on, who joins, and why") {
  EpochText text;
  CHECK(text.begin(epoch_of(1, {1, 2, 3, 4})) == "epoch 1: 4 workers begin");
  CHECK(text.begin(epoch_of(2, {1, 3, 4}, "worker 2 was killed")) ==
        "epoch 2: 3 of 4 workers go on; worker 2 was killed");
  CHECK(text.begin(epoch_of(3, {1, 3, 4, 5})) == "epoch 3: 3 of 3 workers go on, worker 5 joins");
  CHECK(text.begin(epoch_of(4, {1, 6, 7})) ==
        "epoch 4: 1 of 4 workers goes on, workers 6 and 7 join");
  std::vector<elastic::WorkerId> many;
  for (elastic::WorkerId worker = 1; worker <= 20; ++worker) many.push_back(worker);
  CHECK(text.begin(epoch_of(5, many)) == "epoch 5: 3 of 3 workers go on, 17 workers join");
}

}  // namespace ronde
