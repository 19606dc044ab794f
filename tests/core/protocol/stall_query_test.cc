#include "core/protocol/stall_query.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("StallQuery: joins the answers of all children, each heard once") {
  StallQuery query;
  CHECK_FALSE(query.active());
  query.begin(7, {{{"w", 0}, -1, {4}, 0, {}}, {{"", 2}, -1, {4}, 0, {}}}, 2);
  CHECK_FALSE(query.expects(0, 6));
  CHECK_FALSE(query.expects(2, 7));
  REQUIRE(query.expects(1, 7));
  query.answer(1, {{{"w", 0}, 0, {3, 1}, 61'000, {}}, {{"stranger", 0}, 0, {1}, 5, {}}});
  CHECK_FALSE(query.expects(1, 7));
  CHECK_FALSE(query.complete());
  query.answer(0, {{{"w", 0}, 0, {}, 60'000, {}}});
  REQUIRE(query.complete());
  query.drop({"", 2});
  const std::vector<StallFact> facts = query.finish();
  REQUIRE(facts.size() == 1);
  CHECK(stall_text(facts[0]) == "allreduce \"w\" has waited 61 s for ranks 1, 3, 4");
  CHECK_FALSE(query.active());
}

TEST_CASE("StallQuery: without children it is complete at once") {
  StallQuery query;
  query.begin(1, {}, 0);
  CHECK(query.complete());
}

}  // namespace ronde
