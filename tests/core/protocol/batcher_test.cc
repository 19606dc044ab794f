#include "core/protocol/batcher.h"

#include <doctest/doctest.h>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

/// A set of one rank, which is its root.
struct BatchingRoot {
  const std::vector<int> members{0};
  const TreePlace place{};
  NegotiationState state{0, place, 4};
  Matching matching{0, members, place, state};
  StallWatch stalls{Duration(0), Duration(0), state.own};
  Batcher batcher{place,
                  state,
                  matching,
                  stalls,
                  [](const BatchFrame&) {},
                  [](const Report& report) { return report.payload.bytes; }};

  std::vector<Agreed> run(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      Request request;
      request.name = name;
      request.tensors = {{DType::kFloat32, {2}}};
      request.priority = name == "urgent" ? 1 : 0;
      CHECK(matching.submit(request, ++tickets, {}).ok());
    }
    batcher.agree();
    std::vector<Batch> batches;
    batcher.take(batches);
    std::vector<Agreed> items;
    for (Batch& batch : batches)
      std::move(batch.items.begin(), batch.items.end(), std::back_inserter(items));
    return items;
  }
  std::uint64_t tickets = 0;
};

TEST_CASE("Batcher: an operation is agreed in full once, and by its slot from then on") {
  BatchingRoot root;
  for (int round = 0; round < 3; ++round) CHECK(root.run({"w"}).size() == 1);
  CHECK(root.batcher.stats().full_agreements == 1);
  CHECK(root.batcher.stats().cached_agreements == 2);
  CHECK(root.batcher.sequence() == 3);
}

TEST_CASE("Batcher: higher priorities come first in a batch") {
  BatchingRoot root;
  const auto items = root.run({"a", "urgent"});
  REQUIRE(items.size() == 2);
  CHECK(items[0].request.name == "urgent");
}

TEST_CASE("Batcher: a closed set fails what is in flight and agrees on nothing more") {
  BatchingRoot root;
  root.batcher.close_set(0, "done");
  CHECK(root.batcher.closed().code() == Code::kRankFailure);
  CHECK(root.batcher.closed().message() == "rank 0 has left the job: done");
}

TEST_CASE("Batcher: a batch out of sequence is refused") {
  BatchingRoot root;
  BatchFrame batch;
  batch.sequence = 2;
  CHECK(root.batcher.check(batch).code() == Code::kInvalidArgument);
}

}  // namespace
}  // namespace ronde
