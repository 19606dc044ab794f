#include "core/elastic/participant.h"

#include <doctest/doctest.h>

namespace ronde::elastic {
namespace {

/// In an epoch as rank 1 of workers 4, 7 and 9.
Participant placed() {
  EpochNote place;
  place.epoch = 2;
  place.rank = 1;
  place.workers = {{4, "a", true}, {7, "a", true}, {9, "b", false}};
  Participant participant;
  participant.placed(place);
  return participant;
}

}  // namespace

TEST_CASE("participant: the launcher learns the first cause of a failure, and all lost workers") {
  Participant participant = placed();
  participant.began = participant.holds_state = true;
  participant.failed("rank 2 was killed", 2);
  participant.failed("rank 0 does not answer", 0);
  participant.failed("it was interrupted", -1);
  const ReadyNote ready = participant.ready();
  CHECK(ready.began);
  CHECK(ready.holds_state);
  CHECK(ready.why == "rank 2 was killed");
  CHECK(ready.suspects == std::vector<WorkerId>{4, 9});
  CHECK(participant.ready().why == ready.why);  // until there is an answer
}

TEST_CASE("participant: each epoch begins without the failures of the one before") {
  Participant participant = placed();
  participant.began = true;
  participant.failed("rank 2 was killed", 2);
  participant.answered();
  const ReadyNote ready = participant.ready();
  CHECK_FALSE(ready.began);
  CHECK(ready.why.empty());
  CHECK(ready.suspects.empty());
  CHECK(participant.place()->epoch == 2);
}

TEST_CASE("participant: the job can go on from copies or from a checkpoint") {
  Participant participant;
  CHECK(participant.place() == nullptr);
  participant.failed("it has no place yet", 0);
  CHECK(participant.ready().suspects.empty());
  CHECK_FALSE(participant.ready().can_resume);
  participant.has_copies = true;
  CHECK(participant.ready().can_resume);
  participant.has_copies = false;
  participant.has_checkpoint = true;
  CHECK(participant.ready().can_resume);
}

}  // namespace ronde::elastic
