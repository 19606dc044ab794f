#include "core/elastic/own_states.h"

#include <doctest/doctest.h>

namespace ronde::elastic {
namespace {

using Workers = std::vector<WorkerId>;

/// The partner of each rank; letters: their hosts.
std::vector<int> partners(const std::string& letters) {
  EpochNote place;
  for (const char letter : letters) place.workers.push_back({1, std::string(1, letter), false});
  std::vector<int> partners;
  for (; place.rank < static_cast<int>(letters.size()); ++place.rank) {
    partners.push_back(partner_in(place));
  }
  return partners;
}

/// An epoch of these workers.
EpochNote of(const Workers& workers) {
  EpochNote place;
  for (const WorkerId worker : workers) place.workers.push_back({worker, "here", false});
  return place;
}

/// Has the states of workers 1 and 2 of steps 4 and 5, in an epoch of workers 1 to 4.
OwnStates with_two() {
  OwnStates states(1);
  states.begun(of({1, 2, 3, 4}));
  states.keep(4, {{1, "one at 4"}, {2, "two at 4"}, {3, ""}});
  states.keep(5, {{1, "one at 5"}, {2, "two at 5"}});
  return states;
}

const OwnFacts kHolds{true, 0, 0};
const OwnFacts kJoins{false, 0, 0};

}  // namespace

TEST_CASE("own states: partners are on another host where there is one") {
  CHECK(partners("aabb") == std::vector<int>{2, 3, 0, 1});
  CHECK(partners("abab") == std::vector<int>{1, 0, 3, 2});
  CHECK(partners("aaab") == std::vector<int>{3, 3, 3, 0});
  CHECK(partners("abbb") == std::vector<int>{1, 0, 0, 0});
  CHECK(partners("aabbcc") == std::vector<int>{2, 3, 4, 5, 0, 1});
  CHECK(partners("aaa") == std::vector<int>{1, 2, 0});
  CHECK(partners("a") == std::vector<int>{0});
}

TEST_CASE("own states: partners are on another host for any order of ranks") {
  for (int order = 0; order < 3 * 3 * 3 * 3 * 3; ++order) {
    std::string letters;
    for (int rest = order; letters.size() < 5; rest /= 3) letters += "abc"[rest % 3];
    const bool one_host = letters.find_first_not_of(letters[0]) == std::string::npos;
    const auto partner = partners(letters);
    for (std::size_t rank = 0; rank < 5; ++rank) {
      const auto other = static_cast<std::size_t>(partner[rank]);
      CHECK(other != rank);
      CHECK((letters[other] != letters[rank] || one_host));
    }
  }
}

TEST_CASE("own states: they are sent at each so many commits, or never") {
  OwnStates states(3);
  CHECK(states.hands_over());
  int sent = 0;
  for (int commit = 0; commit < 9; ++commit) sent += states.due() ? 1 : 0;
  CHECK(sent == 3);
  OwnStates none;
  CHECK_FALSE(none.hands_over());
  CHECK_FALSE(none.due());
}

TEST_CASE("own states: those of the step at which all go on are offered") {
  OwnStates states = with_two();
  states.begin(4, std::vector{kHolds, kHolds}, of({3, 4}));
  CHECK(states.offer().workers == Workers{1, 2});
  CHECK(states.state_of(1) == "one at 4");
  states.begin(7, std::vector{kHolds, kHolds}, of({2, 3, 4}));
  CHECK(states.offer().workers == Workers{1});
  CHECK(states.state_of(1) == "one at 5");
  states.begin(3, std::vector{kHolds, kHolds}, of({3, 4}));
  CHECK(states.offer().workers.empty());
  states.begin(std::nullopt, std::vector{kHolds, kHolds}, of({3, 4}));
  CHECK(states.offer().workers.empty());
  CHECK(states.lost() == Workers{1, 2});
}

TEST_CASE("own states: the first rank that has one gives it to the first that joins") {
  OwnStates states = with_two();
  states.begin(5, std::vector{kHolds, kHolds, kJoins}, of({3, 4, 5}));
  Handover handover = states.hand_over(0, std::vector<OwnOffer>{states.offer(), {{2}}, {}});
  CHECK(handover.given == std::map<int, WorkerId>{{2, 1}});
  CHECK(handover.left == Workers{2});
  CHECK(states.lost().empty());
  states.begin(5, std::vector{kHolds, kHolds, kJoins}, of({3, 4, 5}));
  handover = states.hand_over(1, std::vector<OwnOffer>{{{1, 2}}, states.offer(), {}});
  CHECK(handover.given.empty());
  CHECK(handover.left.empty());
}

TEST_CASE("own states: a worker whose copies were inherited needs no partner, and no other does") {
  OwnStates states = with_two();
  const OwnFacts inherits{false, 1, 0};
  states.begin(5, std::vector{kHolds, kHolds, inherits}, of({3, 4, 5}));
  CHECK(states.offer().workers == Workers{2});
  CHECK(states.hand_over(0, std::vector{states.offer(), {}, {}}).left == Workers{2});
}

TEST_CASE("own states: one that was merged is not merged again, unless all go back before that") {
  OwnStates states = with_two();
  const auto settle_at = [&](std::int64_t step) {
    states.begin(step, std::vector{kHolds, kHolds}, of({3, 4}));
    return states.hand_over(0, std::vector{states.offer(), {}}).left;
  };
  CHECK(settle_at(5) == Workers{1, 2});
  CHECK(settle_at(5) == Workers{1, 2});  // the epoch did not begin: all are at step 5 again
  CHECK(settle_at(6).empty());           // it is in the copies of step 6
  states.begun(of({3, 4}));
  states.begin(6, std::vector{kHolds, kHolds}, of({3, 4}));
  CHECK(states.lost().empty());
}

}  // namespace ronde::elastic
