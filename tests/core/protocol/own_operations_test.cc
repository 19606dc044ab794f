#include "core/protocol/own_operations.h"

#include <doctest/doctest.h>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

/// Rank 1 of three.
struct OwnFixture {
  Status submit(const std::string& name, std::uint64_t ticket = 1) {
    told = {};
    return own.submit(allreduce(name), ticket, {}, {}, told);
  }
  const std::vector<int> members{0, 1, 2};
  const TreeNode node{{0, {}}, 1, members};
  ResponseCache cache{4};
  OwnOperations own{node, cache};
  Announcement told;
};

}  // namespace

TEST_CASE_FIXTURE(OwnFixture,
                  "OwnOperations: a new operation is reported, and taken once it is agreed") {
  REQUIRE(submit("w", 7).ok());
  REQUIRE(told.report);
  CHECK(told.report->key() == OpKey{"w", 0});
  CHECK(told.report->rank == 1);
  CHECK(own.size() == 1);
  Agreed agreed;
  CHECK(own.take(OpKey{"w", 0}, agreed));
  CHECK(agreed.ticket == 7);
  CHECK_FALSE(own.takes_part({"w", 0}));
  CHECK_FALSE(own.take(OpKey{"w", 0}, agreed));
}

TEST_CASE_FIXTURE(OwnFixture, "OwnOperations: a cached operation is told by its slot") {
  cache.assign(0, std::make_shared<const Request>(allreduce("w")), 1);
  REQUIRE(submit("w", 7).ok());
  CHECK(told.slot == 0);
  CHECK_FALSE(told.report);
  Agreed agreed;
  CHECK(own.take(0, agreed));
  CHECK(agreed.ticket == 7);
}

TEST_CASE_FIXTURE(OwnFixture,
                  "OwnOperations: a name in flight is refused and told of, after a join all") {
  CHECK(submit("w", 1).ok());
  CHECK(submit("w", 2).code() == Code::kDuplicateName);
  REQUIRE(told.duplicate);
  CHECK(told.duplicate->key == OpKey{"w", 0});
  CHECK(own.join(3).ok());
  CHECK(own.join(3).code() == Code::kInvalidArgument);
  CHECK(submit("v", 4).code() == Code::kInvalidArgument);
  CHECK_FALSE(told.duplicate);
  const std::vector<Agreed> all = own.take_all();
  REQUIRE(all.size() == 2);
  CHECK(all.back().ticket == 3);
}

TEST_CASE_FIXTURE(OwnFixture, "OwnOperations: what failed without this rank is its error, once") {
  own.owe({"w", 0}, Status(Code::kStalled, "late"));
  CHECK(submit("w", 1).code() == Code::kStalled);
  CHECK(submit("w", 2).ok());
}

TEST_CASE_FIXTURE(OwnFixture,
                  "OwnOperations: its facts say how long it waits, or that it lacks them") {
  REQUIRE(submit("w").ok());
  const auto facts = own.facts({{"w", 0}, {"v", 0}}, at_ms(1500));
  REQUIRE(facts.size() == 2);
  CHECK(facts[0].waited_ms == 1500);
  CHECK(facts[0].missing.empty());
  CHECK(facts[1].missing == std::vector<int>{1});
}

}  // namespace ronde
