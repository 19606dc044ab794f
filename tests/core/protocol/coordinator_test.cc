#include "core/protocol/coordinator.h"

#include <doctest/doctest.h>

#include "tests/core/protocol/tree_parts.h"

namespace ronde {
namespace {

/// The only rank of its set.
struct Root : TreeParts {
  Root() : TreeParts(0, {0}, {}) {}

  std::vector<Agreed> agree() {
    coordinator.agree();
    return agreed();
  }
  Coordinator coordinator{node, own, subtree, applier, sender, nullptr};
};

}  // namespace

TEST_CASE_FIXTURE(Root, "Coordinator: agreed in full once, and by the slot from then on") {
  for (int round = 0; round < 3; ++round) {
    REQUIRE(submit(allreduce("w")).ok());
    CHECK(agree().size() == 1);
  }
  CHECK(applier.stats().full_agreements == 1);
  CHECK(applier.stats().cached_agreements == 2);
}

TEST_CASE_FIXTURE(Root, "Coordinator: higher priorities come first in a batch") {
  REQUIRE(submit(allreduce("a")).ok());
  Request urgent = allreduce("urgent");
  urgent.priority = 1;
  REQUIRE(submit(urgent).ok());
  const auto items = agree();
  REQUIRE(items.size() == 2);
  CHECK(items[0].request.name == "urgent");
}

TEST_CASE_FIXTURE(Root, "Coordinator: a rank that leaves closes the set") {
  coordinator.close_set(0, "done");
  CHECK(applier.closed().code() == Code::kRankFailure);
  CHECK(applier.closed().message() == "rank 0 has left the job: done");
  REQUIRE(submit(allreduce("w")).ok());
  CHECK(agree().empty());
  coordinator.close_set(0, "again");
  CHECK(applier.closed().message() == "rank 0 has left the job: done");
}

}  // namespace ronde
