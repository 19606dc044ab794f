#include "core/elastic/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace ronde::elastic {
namespace {

using Ranks = std::span<const StartFacts>;

/// The rank of the first with this fact; the number of ranks if none has it.
int first_with(Ranks ranks, const std::function<bool(const StartFacts&)>& fact) {
  return static_cast<int>(std::ranges::find_if(ranks, fact) - ranks.begin());
}

/// The step that was committed last; some holder may not know yet that it was.
std::int64_t committed_step(Ranks ranks) {
  std::int64_t newest = 0;
  for (const StartFacts& rank : ranks) {
    if (rank.holds_state) newest = std::max(newest, rank.certain);
  }
  return newest;
}

/// True if all ranks have gone back to this step, so that nothing is to be sent.
bool are_alike(Ranks ranks, std::int64_t step) {
  return std::ranges::any_of(ranks, &StartFacts::restored) &&
         std::ranges::all_of(ranks, [&](const StartFacts& rank) {
           return rank.holds_state && rank.alike && rank.has(step);
         });
}

}  // namespace

void Progress::copied() noexcept {
  older_step_ = std::exchange(step_, next_step());
  certain_ = step_;
  next_.reset();
}

/// States of the user's own may count no copies.
void Progress::copied_since(const Progress& before) noexcept {
  step_ = std::max(step_, before.step_ + 1);
  certain_ = before.certain_;
}

void Progress::begun() noexcept {
  root_ = 0;
  committed();
}

StartFacts Progress::facts() const noexcept {
  StartFacts facts;
  facts.certain = certain_;
  facts.step = step_;
  facts.older_step = older_step_;
  return facts;
}

Result<Start> Progress::choose(const StartFacts& mine, Ranks ranks) {
  if (std::ranges::all_of(ranks, &StartFacts::skip_sync)) {
    Start start;
    start.sends = false;
    return start;
  }
  if (std::ranges::any_of(ranks, &StartFacts::holds_state)) return go_on(mine, ranks);
  return resume(mine, ranks);
}

/// From copies of workers that live.
Result<Start> Progress::go_on(const StartFacts& mine, Ranks ranks) {
  const std::int64_t step = committed_step(ranks);
  const int sender =
      first_with(ranks, [&](const StartFacts& rank) { return rank.holds_state && rank.has(step); });
  if (sender == static_cast<int>(ranks.size())) {
    return Status(Code::kInternal, fmt::format("no rank holds step {}, which was committed", step));
  }
  root_ = sender;
  Start start;
  start.step = step;
  start.restore = go_to(step, mine, ranks);
  start.sends = !are_alike(ranks, step);
  start.keeps_adopted = mine.adopted.has(step);
  return start;
}

/// A worker that replaces one that died at this step goes on with its own parts.
Start::Restore Progress::go_to(std::int64_t step, const StartFacts& mine, Ranks ranks) {
  using Restore = Start::Restore;
  if (!mine.holds_state) return mine.adopted.has(step) ? Restore::kAdoptedOwn : Restore::kNothing;
  const bool any_restored = std::ranges::any_of(
      ranks, [](const StartFacts& rank) { return rank.holds_state && rank.restored; });
  const bool at_it = mine.restored && !is_undecided() && step_ == step;
  if (!any_restored || at_it) return Restore::kNothing;
  if (older_step_ != step) return Restore::kNewest;  // it is this step, or what is sent mends it
  step_ = std::exchange(older_step_, -1);
  return Restore::kOlder;
}

/// Nobody holds the state: all go on from copies of workers that died, or from a checkpoint. Copies
/// of one step were made by all workers, or are at most one step older than others; those before it
/// are of workers that died earlier.
Start Progress::resume(const StartFacts& mine, Ranks ranks) {
  std::int64_t newest = -1;
  std::int64_t checkpoint = 0;
  for (const StartFacts& rank : ranks) {
    newest = std::max(newest, rank.adopted.newest);
    checkpoint = std::max(checkpoint, rank.checkpoint);
  }
  if (newest < 0 || newest < checkpoint) return choose_checkpoint(mine, ranks);
  std::int64_t step = newest;
  for (const StartFacts& rank : ranks) {
    const std::int64_t copied = rank.adopted.newest;
    if (copied >= std::max<std::int64_t>(newest - 1, 0)) step = std::min(step, copied);
  }
  root_ = first_with(ranks, [&](const StartFacts& rank) { return rank.adopted.has(step); });
  Start start;
  start.keeps_adopted = mine.adopted.has(step);
  if (start.keeps_adopted) {
    start.restore = Start::Restore::kAdopted;
    step_ = certain_ = step;
  }
  start.step = step;
  return start;
}

Start Progress::choose_checkpoint(const StartFacts& mine, Ranks ranks) {
  Start start;
  for (const StartFacts& rank : ranks)
    start.checkpoint = std::max(start.checkpoint, rank.checkpoint);
  const std::int64_t newest = start.checkpoint;
  root_ = 0;
  if (newest > 0) {
    root_ = first_with(ranks, [&](const StartFacts& rank) { return rank.checkpoint == newest; });
    start.loads = mine.checkpoint == newest;
    step_ = std::max(step_, newest);  // later checkpoints are newer than this one
    return start;
  }
  for (const StartFacts& rank : ranks) {
    start.damaged |= rank.damaged;
    start.needs_whole |= rank.damaged && rank.needs_whole;
  }
  return start;
}

}  // namespace ronde::elastic
