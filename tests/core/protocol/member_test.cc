#include "core/protocol/member.h"

#include <doctest/doctest.h>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

/// Rank 1 of three.
struct MemberFixture {
  Status submit(const std::string& name, std::uint64_t ticket = 1) {
    told = {};
    return member.submit(allreduce(name), ticket, {}, {}, told);
  }
  const std::vector<int> members{0, 1, 2};
  Member member{1, members, 4};
  Announcement told;
};

}  // namespace

TEST_CASE_FIXTURE(MemberFixture,
                  "Member: a new operation is reported, and taken once it is agreed") {
  REQUIRE(submit("w", 7).ok());
  REQUIRE(told.report);
  CHECK(told.report->key() == OpKey{"w", 0});
  CHECK(told.report->rank == 1);
  CHECK(member.pending() == 1);
  Agreed agreed;
  CHECK(member.take({"w", 0}, agreed));
  CHECK(agreed.ticket == 7);
  CHECK_FALSE(member.takes_part({"w", 0}));
  CHECK_FALSE(member.take({"w", 0}, agreed));
}

TEST_CASE_FIXTURE(MemberFixture, "Member: a cached operation is told by its slot") {
  member.cache().assign(0, std::make_shared<const Request>(allreduce("w")), 1);
  REQUIRE(submit("w", 7).ok());
  CHECK(told.slot == 0);
  CHECK_FALSE(told.report);
  Agreed agreed;
  CHECK(member.take_slot(0, agreed));
  CHECK(agreed.ticket == 7);
}

TEST_CASE_FIXTURE(MemberFixture,
                  "Member: a name in flight is refused and told of, after a join all") {
  CHECK(submit("w", 1).ok());
  CHECK(submit("w", 2).code() == Code::kDuplicateName);
  REQUIRE(told.duplicate);
  CHECK(told.duplicate->key == OpKey{"w", 0});
  CHECK(member.join(3).ok());
  CHECK(member.join(3).code() == Code::kInvalidArgument);
  CHECK(submit("v", 4).code() == Code::kInvalidArgument);
  CHECK_FALSE(told.duplicate);
  const std::vector<Agreed> all = member.take_all();
  REQUIRE(all.size() == 2);
  CHECK(all.back().ticket == 3);
}

TEST_CASE_FIXTURE(MemberFixture, "Member: what failed without this rank is its error, once") {
  member.owe({"w", 0}, Status(Code::kStalled, "late"));
  CHECK(submit("w", 1).code() == Code::kStalled);
  CHECK(submit("w", 2).ok());
}

TEST_CASE_FIXTURE(MemberFixture, "Member: its facts say how long it waits, or that it lacks them") {
  REQUIRE(submit("w").ok());
  const auto facts = member.facts({{"w", 0}, {"v", 0}}, at_ms(1500));
  REQUIRE(facts.size() == 2);
  CHECK(facts[0].waited_ms == 1500);
  CHECK(facts[0].missing.empty());
  CHECK(facts[1].missing == std::vector<int>{1});
}

}  // namespace ronde
