#include "core/protocol/stall_query.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace ronde {
namespace {

std::string where(const BlockedRank& blocked) {
  const std::string site = blocked.site.empty() ? "" : fmt::format(" ({})", blocked.site);
  return fmt::format("{} on rank {}{}", label(blocked.kind, blocked.key), blocked.rank, site);
}

/// What must end before the fact's operation can; null where it is none of these.
const StallFact* held_by(const StallFact& fact, const std::vector<const StallFact*>& among) {
  const auto found = std::find_if(among.begin(), among.end(), [&](const StallFact* other) {
    return other->key == fact.blocked.key;
  });
  return found == among.end() ? nullptr : *found;
}

}  // namespace

void StallQuery::begin(std::uint64_t id, std::vector<StallFact> own, std::size_t children) {
  id_ = id;
  facts_ = std::move(own);
  answered_.assign(children, false);
  awaited_ = children;
}

bool StallQuery::expects(std::size_t child, std::uint64_t id) const {
  return active() && id == id_ && child < answered_.size() && !answered_[child];
}

void StallQuery::answer(std::size_t child, const std::vector<StallFact>& facts) {
  answered_[child] = true;
  --awaited_;
  for (const StallFact& theirs : facts) {
    const auto mine = std::find_if(facts_.begin(), facts_.end(),
                                   [&](const StallFact& fact) { return fact.key == theirs.key; });
    if (mine == facts_.end()) continue;
    mine->missing.insert(mine->missing.end(), theirs.missing.begin(), theirs.missing.end());
    mine->waited_ms = std::max(mine->waited_ms, theirs.waited_ms);
    mine->kind = std::max(mine->kind, theirs.kind);
    if (mine->blocked.rank < 0) mine->blocked = theirs.blocked;
  }
}

void StallQuery::drop(const OpKey& key) {
  std::erase_if(facts_, [&](const StallFact& fact) { return fact.key == key; });
}

std::vector<StallFact> StallQuery::finish() {
  id_ = 0;
  for (StallFact& fact : facts_) std::sort(fact.missing.begin(), fact.missing.end());
  return std::exchange(facts_, {});
}

std::string stall_text(const StallFact& fact) {
  return fmt::format("{} has waited {} s for rank{} {}",
                     label(static_cast<Collective>(fact.kind), fact.key), fact.waited_ms / 1000,
                     fact.missing.size() == 1 ? "" : "s", fmt::join(fact.missing, ", "));
}

std::vector<const StallFact*> endless(const std::vector<StallFact>& facts) {
  std::vector<const StallFact*> waiting;
  for (const StallFact& fact : facts) {
    if (fact.blocked.rank >= 0) waiting.push_back(&fact);
  }
  const auto ends = [&](const StallFact* fact) { return held_by(*fact, waiting) == nullptr; };
  while (std::any_of(waiting.begin(), waiting.end(), ends)) {
    const auto first = std::find_if(waiting.begin(), waiting.end(), ends);
    waiting.erase(first);
  }
  return waiting;
}

std::string cycle_text(const StallFact& fact, const std::vector<const StallFact*>& waiting) {
  std::vector<BlockedRank> path;  // from what holds the operation to what closes the cycle
  const auto again = [&](const BlockedRank& blocked) {
    return std::find_if(path.begin(), path.end(),
                        [&](const BlockedRank& known) { return known.key == blocked.key; });
  };
  const StallFact* at = &fact;
  for (; again(at->blocked) == path.end(); at = held_by(*at, waiting)) path.push_back(at->blocked);
  path.erase(path.begin(), again(at->blocked));
  std::sort(path.begin(), path.end(),
            [](const BlockedRank& a, const BlockedRank& b) { return a.rank < b.rank; });
  std::vector<std::string> sites(path.size());
  std::transform(path.begin(), path.end(), sites.begin(), where);
  return fmt::format(
      "{} wait for each other: none of these ranks submits another's operation before its own has "
      "ended. Where they belong together, give them the same name",
      fmt::join(sites, " and "));
}

}  // namespace ronde
