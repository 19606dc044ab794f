#include "core/elastic/progress.h"

#include <doctest/doctest.h>

namespace ronde::elastic {
namespace {

using Restore = Start::Restore;
using Ranks = std::vector<StartFacts>;

/// At step 3, of which step 2 is the newest that all ranks have copied.
Progress ahead() {
  Progress progress(1);
  progress.copied();
  const Progress before = progress;
  progress.copied();
  progress.copied_since(before);
  return progress;
}

/// A rank that holds this step and the one before it, and has restored it.
StartFacts holder(std::int64_t step, std::int64_t certain) {
  StartFacts facts;
  facts.holds_state = facts.alike = facts.restored = true;
  facts.certain = certain;
  facts.step = step;
  facts.older_step = step - 1;
  return facts;
}

StartFacts with_copies(std::int64_t newest, std::int64_t older = -1) {
  StartFacts facts;
  facts.adopted = {newest, older};
  return facts;
}

StartFacts with_checkpoint(std::int64_t step) {
  StartFacts facts;
  facts.checkpoint = step;
  return facts;
}

/// The choice of rank 0, which has told its own facts.
Start chosen(Progress& progress, const Ranks& ranks) {
  const auto start = progress.choose(ranks[0], ranks);
  REQUIRE(start.ok());
  return *start;
}

/// That of a rank at step 3, after a failure.
Start chosen_with(const StartFacts& other, Progress& progress) {
  StartFacts mine = progress.facts();
  mine.holds_state = mine.alike = mine.restored = true;
  return chosen(progress, {mine, other});
}

}  // namespace

TEST_CASE("progress: a step is committed once all ranks have copied it") {
  Progress progress;
  const Progress before = progress;
  progress.copied();
  progress.copied_since(before);
  CHECK(progress.step() == 1);
  CHECK(progress.older_step() == 0);
  CHECK(progress.certain() == 0);
  progress.committed();
  CHECK(progress.certain() == 1);
}

TEST_CASE("progress: a state of the user's own that counts no copies has one all the same") {
  Progress progress;
  progress.copied_since(Progress(4));
  CHECK(progress.step() == 5);
  CHECK(progress.older_step() == -1);
}

TEST_CASE("progress: the step of a state that was sent is above those of all copies") {
  Progress progress = ahead();
  progress.synced(6);
  CHECK(progress.next_step() == 8);
  progress.copied();
  CHECK(progress.step() == 8);
  CHECK(progress.older_step() == 3);
  CHECK(progress.next_step() == 9);
}

TEST_CASE("progress: ranks tell facts that others read") {
  const StartFacts mine = holder(7, 6);
  auto bytes = encode_wire(mine);
  const auto other = encode_wire(with_copies(4, 3));
  bytes.insert(bytes.end(), other.begin(), other.end());
  const auto ranks = decode_ranks<StartFacts>(bytes, 2);
  REQUIRE(ranks.ok());
  REQUIRE(ranks->size() == 2);
  CHECK((*ranks)[0].has(6));
  CHECK((*ranks)[1].adopted.has(3));
  bytes.pop_back();
  CHECK_FALSE(decode_ranks<StartFacts>(bytes, 2).ok());
}

TEST_CASE("progress: all go back to the newest step that all ranks have copied") {
  struct Case {
    StartFacts other;
    Restore restore;
    std::int64_t step;
  };
  for (const Case& one :
       {Case{holder(2, 2), Restore::kOlder, 2}, Case{holder(3, 3), Restore::kNewest, 3},
        Case{StartFacts{}, Restore::kOlder, 2}}) {
    Progress progress = ahead();
    const Start start = chosen_with(one.other, progress);
    CHECK(start.restore == one.restore);
    CHECK(start.step == one.step);
    CHECK(progress.step() == one.step);
  }
}

TEST_CASE("progress: a copy is restored before the choice only where all ranks have it") {
  Progress progress = ahead();
  CHECK(progress.is_undecided());
  progress.committed();
  CHECK_FALSE(progress.is_undecided());
  CHECK(chosen_with(holder(3, 3), progress).restore == Restore::kNothing);  // it was restored
}

TEST_CASE("progress: a rank that lags behind does not send its state") {
  Progress progress = ahead();
  const Start start = chosen_with(holder(5, 5), progress);
  CHECK(progress.root() == 1);
  CHECK(start.restore == Restore::kNewest);
  CHECK(start.sends);
  progress.begun();
  CHECK(progress.root() == 0);
}

TEST_CASE("progress: ranks that have all restored one step send nothing") {
  const auto sends = [](StartFacts other) {
    Progress progress = ahead();
    return chosen_with(other, progress).sends;
  };
  CHECK_FALSE(sends(holder(3, 3)));
  CHECK_FALSE(sends(holder(2, 2)));  // all go back by one
  CHECK(sends(holder(4, 4)));        // the other one is ahead
  CHECK(sends({}));                  // it joins
  StartFacts sends_more = holder(3, 3);
  sends_more.alike = false;
  CHECK(sends(sends_more));
}

TEST_CASE("progress: after a change without failures nothing is restored") {
  Progress progress(3);
  StartFacts mine = holder(3, 3);
  mine.restored = false;
  Start start = chosen(progress, {mine, StartFacts{}});
  CHECK(start.restore == Restore::kNothing);
  CHECK(start.sends);
  mine.skip_sync = true;
  start = chosen(progress, {mine, mine});
  CHECK_FALSE(start.sends);
  CHECK_FALSE(start.step.has_value());
}

TEST_CASE("progress: a worker that takes a dead one's place gets its own parts of that step") {
  Progress progress;
  const Start start = chosen(progress, {with_copies(3, 2), holder(2, 2)});
  CHECK(start.restore == Restore::kAdoptedOwn);
  CHECK(start.step == 2);
  CHECK(start.keeps_adopted);
  CHECK_FALSE(chosen(progress, {with_copies(9, 8), holder(2, 2)}).keeps_adopted);
  // Others got no facts of it, as it had to answer before it had copies.
  const Ranks told = {StartFacts{}, holder(2, 2)};
  CHECK(progress.choose(with_copies(2), told)->restore == Restore::kAdoptedOwn);
}

TEST_CASE("progress: where no rank has the committed step, that is an error") {
  Progress progress;
  StartFacts wrong = holder(2, 7);
  CHECK(progress.choose({}, Ranks{{}, wrong}).status().code() == Code::kInternal);
}

TEST_CASE("progress: if all workers died, the new ones go on from the step that all copied") {
  Progress progress;
  // Rank 2 died while the others made their copies; rank 3's worker has died earlier.
  const Start start = chosen(
      progress, {with_copies(6, 5), with_copies(6, 5), with_copies(5, 4), with_copies(2, 1)});
  CHECK(start.step == 5);
  CHECK(start.restore == Restore::kAdopted);
  CHECK(progress.step() == 5);
  CHECK(progress.certain() == 5);
  Progress without;
  CHECK(chosen(without, {StartFacts{}, with_copies(0)}).restore == Restore::kNothing);
  CHECK(without.root() == 1);
}

TEST_CASE("progress: checkpoints are gone on from where they are newer than all copies") {
  Progress progress;
  Start start = chosen(progress, {with_copies(3, 2), with_checkpoint(4), with_checkpoint(5)});
  CHECK(start.checkpoint == 5);
  CHECK_FALSE(start.loads);
  CHECK_FALSE(start.keeps_adopted);
  CHECK(progress.root() == 2);
  CHECK(progress.step() == 5);
  start = chosen(progress, {with_checkpoint(2), StartFacts{}});
  CHECK(start.loads);
  CHECK(progress.root() == 0);
  CHECK(chosen(progress, {with_copies(4), with_checkpoint(4)}).restore == Restore::kAdopted);
}

TEST_CASE("progress: some rank may forbid to begin from scratch beside damaged checkpoints") {
  StartFacts damaged;
  damaged.damaged = true;
  StartFacts strict;
  strict.needs_whole = true;  // of files that are not there
  Progress progress;
  Start start = chosen(progress, {damaged, strict});
  CHECK(start.damaged);
  CHECK_FALSE(start.needs_whole);
  strict.damaged = true;
  CHECK(chosen(progress, {damaged, strict}).needs_whole);
  start = chosen(progress, {damaged, with_checkpoint(1)});
  CHECK(start.checkpoint == 1);
  CHECK_FALSE(start.damaged);
}

}  // namespace ronde::elastic
