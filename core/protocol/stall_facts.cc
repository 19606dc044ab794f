#include "core/protocol/stall_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/join_text.h"

namespace ronde {
namespace {

std::string where(const BlockedRank* blocked) {
  const std::string site = blocked->site.empty() ? "" : fmt::format(" ({})", blocked->site);
  return fmt::format("{} on rank {}{}", label(blocked->kind, blocked->key), blocked->rank, site);
}

/// The fact of the operation that blocks this fact's rank; null if it is not among these.
const StallFact* held_by(const StallFact& fact, const std::vector<const StallFact*>& among) {
  const auto found = std::find_if(among.begin(), among.end(), [&](const StallFact* other) {
    return other->key == fact.blocked.key;
  });
  return found == among.end() ? nullptr : *found;
}

/// The facts of the cycle that the fact's operation waits for. The fact itself may lie outside of
/// it. The operation that blocks one fact's rank is the next fact's; the last leads to the first.
std::vector<const StallFact*> cycle_of(const StallFact& fact,
                                       const std::vector<const StallFact*>& waiting) {
  std::vector<const StallFact*> path;
  const auto again = [&](const StallFact* at) {
    return std::find_if(path.begin(), path.end(), [&](const StallFact* known) {
      return known->blocked.key == at->blocked.key;
    });
  };
  const StallFact* at = &fact;
  for (; again(at) == path.end(); at = held_by(*at, waiting)) path.push_back(at);
  path.erase(path.begin(), again(at));
  return path;
}

/// True if the operation that the rank lacks was used later than the one that blocks it.
bool is_behind(const StallFact& lacking, const std::vector<const StallFact*>& waiting) {
  const StallFact* blocked_in = held_by(lacking, waiting);
  return lacking.last_use > (blocked_in == nullptr ? 0 : blocked_in->last_use);
}

/// The operation of the rank before it in the cycle, which this rank lacks.
const BlockedRank& awaited_from(const std::vector<const StallFact*>& cycle, const StallFact* fact) {
  const auto at = std::find(cycle.begin(), cycle.end(), fact);
  return (at == cycle.begin() ? cycle.back() : *std::prev(at))->blocked;
}

/// The ranks that have fewer batches, or one operation too many. `behind`: their facts.
std::string remedy_of_behind(const std::vector<const StallFact*>& cycle,
                             const std::vector<const StallFact*>& behind,
                             const std::vector<const StallFact*>& waiting) {
  std::vector<int> ranks;
  for (const StallFact* fact : behind) ranks.push_back(fact->blocked.rank);
  std::sort(ranks.begin(), ranks.end());
  const BlockedRank& awaited = awaited_from(cycle, behind.front());
  const BlockedRank& last = behind.front()->blocked;
  const StallFact* blocked_in = held_by(*behind.front(), waiting);
  std::string otherwise;
  if (blocked_in == nullptr || blocked_in->last_use == 0) {
    otherwise = fmt::format("only rank {} submits {}, which all ranks must do", last.rank,
                            label(last.kind, last.key));
  }
  return fmt::format("all ranks have submitted {} before; now {}", label(awaited.kind, awaited.key),
                     fewer_batches_text(ranks, otherwise));
}

/// The likely cause of a cycle, and what to do.
std::string cycle_remedy(const std::vector<const StallFact*>& cycle,
                         const std::vector<const StallFact*>& waiting) {
  std::vector<const StallFact*> behind;
  std::copy_if(cycle.begin(), cycle.end(), std::back_inserter(behind),
               [&](const StallFact* fact) { return is_behind(*fact, waiting); });
  if (!behind.empty()) return remedy_of_behind(cycle, behind, waiting);
  const bool are_alike = std::all_of(cycle.begin(), cycle.end(), [&](const StallFact* fact) {
    return fact->blocked.kind == cycle.front()->blocked.kind && fact->last_use == 0;
  });
  return fmt::format(
      "none of these ranks submits another's operation before its own has ended. {}",
      are_alike ? "See that none stands in a branch that only some ranks take. Where they belong "
                  "together, give them the same name"
                : "All ranks must submit the same operations, in an order that fits");
}

}  // namespace

std::string stall_text(const StallFact& fact) {
  return fmt::format("{} has waited {} s for rank{} {}",
                     label(static_cast<Collective>(fact.kind), fact.key), fact.waited_ms / 1000,
                     fact.missing.size() == 1 ? "" : "s", join_text(fact.missing, ", "));
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
  const std::vector<const StallFact*> cycle = cycle_of(fact, waiting);
  std::vector<const BlockedRank*> path;
  for (const StallFact* in : cycle) path.push_back(&in->blocked);
  std::sort(path.begin(), path.end(),
            [](const BlockedRank* a, const BlockedRank* b) { return a->rank < b->rank; });
  std::vector<std::string> sites(path.size());
  std::transform(path.begin(), path.end(), sites.begin(), where);
  return fmt::format("{} wait for each other: {}", join_text(sites, " and "),
                     cycle_remedy(cycle, waiting));
}

std::string fewer_batches_text(std::span<const int> ranks, std::string_view otherwise) {
  const bool one = ranks.size() == 1;
  return fmt::format(
      "rank{} {} probably {} fewer batches than the others (uneven data, or an early stop){}{}. "
      "Give all ranks as many batches: by DistributedSampler, ElasticSampler, drop_last or "
      "steps_per_epoch. Or have each rank call join() after its last batch",
      one ? "" : "s", join_text(ranks, ", "), one ? "has" : "have",
      otherwise.empty() ? "" : ", or ", otherwise);
}

std::string waits_for_leaver_text(const Request& request, int rank, bool known, bool in_order) {
  const std::string waits = fmt::format("; {} waits for it", described(request));
  if (!in_order) return waits;
  if (request.kind == Collective::kJoin) {
    return waits + ". All ranks must call join() before they leave";
  }
  return known ? fmt::format("{}: {}", waits, fewer_batches_text({&rank, 1})) : waits;
}

}  // namespace ronde
