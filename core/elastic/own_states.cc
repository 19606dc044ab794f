#include "core/elastic/own_states.h"

#include <algorithm>

namespace ronde::elastic {

namespace {

std::set<WorkerId> living(const EpochNote& place) {
  std::set<WorkerId> workers;
  for (const EpochWorker& one : place.workers) workers.insert(one.worker);
  return workers;
}

}  // namespace

int partner_in(const EpochNote& place) {
  std::vector<std::string> names;                   // in the order of the first ranks
  std::map<std::string, std::vector<int>> by_host;  // ranks
  for (int rank = 0; rank < static_cast<int>(place.workers.size()); ++rank) {
    const std::string& host = place.workers[static_cast<std::size_t>(rank)].host;
    std::vector<int>& ranks = by_host[host];
    if (ranks.empty()) names.push_back(host);
    ranks.push_back(rank);
  }
  if (names.size() == 1) return (place.rank + 1) % static_cast<int>(place.workers.size());
  const std::string& mine = place.workers[static_cast<std::size_t>(place.rank)].host;
  const auto host = std::ranges::find(names, mine) - names.begin() + 1;
  const std::vector<int>& theirs = by_host[names[static_cast<std::size_t>(host) % names.size()]];
  const auto before = std::ranges::find(by_host[mine], place.rank) - by_host[mine].begin();
  return theirs[static_cast<std::size_t>(before) % theirs.size()];
}

bool OwnStates::due() { return every_ > 0 && ++commits_ % every_ == 0; }

void OwnStates::keep(std::int64_t step, ByWorker states) {
  std::erase_if(states, [](const auto& one) { return one.second.empty(); });
  held_.emplace(held_.begin(), step, std::move(states));
  if (held_.size() > 2) held_.pop_back();
}

void OwnStates::begun(const EpochNote& place) {
  members_ = living(place);
  taken_at_ = -1;
  taken_.clear();
  if (held_.size() > 1) held_.pop_back();
}

void OwnStates::begin(std::optional<std::int64_t> step, std::span<const OwnFacts> ranks,
                      const EpochNote& place) {
  step_ = step;
  living_ = living(place);
  settled_.clear();
  takers_.clear();
  orphans_.clear();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const OwnFacts& facts = ranks[rank];
    if (facts.restored != 0) settled_.insert(facts.restored);
    if (!facts.holds_state && facts.restored == 0) takers_.push_back(static_cast<int>(rank));
  }
  // A state that was settled at an earlier step is in the copies that are restored now.
  if (step_ && *step_ > taken_at_) settled_.insert(taken_.begin(), taken_.end());
  const auto held =
      std::ranges::find_if(held_, [&](const auto& one) { return step_ && one.first <= *step_; });
  if (held == held_.end()) return;
  for (const auto& [worker, state] : held->second) {
    if (!living_.contains(worker) && !settled_.contains(worker)) orphans_.emplace(worker, state);
  }
}

OwnOffer OwnStates::offer() const {
  OwnOffer offer;
  for (const auto& one : orphans_) offer.workers.push_back(one.first);
  return offer;
}

Handover OwnStates::hand_over(int rank, std::span<const OwnOffer> offers) {
  std::map<WorkerId, int> keepers;  // the first rank that has the worker's state
  for (std::size_t keeper = 0; keeper < offers.size(); ++keeper) {
    for (const WorkerId worker : offers[keeper].workers)
      keepers.emplace(worker, static_cast<int>(keeper));
  }
  Handover handover;
  auto taker = takers_.begin();
  taken_.clear();
  for (const auto& [worker, keeper] : keepers) {
    taken_.insert(worker);
    const bool is_taken = taker != takers_.end();
    const int by = is_taken ? *taker++ : -1;
    if (keeper != rank) continue;
    if (is_taken) {
      handover.given.emplace(by, worker);
    } else {
      handover.left.push_back(worker);
    }
  }
  taken_at_ = step_.value_or(-1);
  settled_.insert(taken_.begin(), taken_.end());
  return handover;
}

std::vector<WorkerId> OwnStates::lost() const {
  std::vector<WorkerId> lost;
  for (const WorkerId worker : members_) {
    if (!living_.contains(worker) && !settled_.contains(worker)) lost.push_back(worker);
  }
  return lost;
}

}  // namespace ronde::elastic
