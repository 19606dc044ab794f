#include "core/protocol/stall_query.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace ronde {
namespace {

std::string where(const Holder& holder) {
  const std::string site = holder.site.empty() ? "" : fmt::format(" ({})", holder.site);
  return fmt::format("{} on rank {}{}", label(holder.kind, holder.key), holder.rank, site);
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
    if (mine->owner.rank < 0) mine->owner = theirs.owner;
    if (mine->holder.rank < 0 || (theirs.holder.alone && !mine->holder.alone)) {
      mine->holder = theirs.holder;
    }
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

bool is_cycle(const StallFact& fact) noexcept {
  return fact.owner.rank >= 0 && fact.holder.rank >= 0;
}

std::string cycle_text(const StallFact& fact) {
  const bool in_order = fact.owner.rank < fact.holder.rank;
  return fmt::format(
      "{} and {} wait for each other: neither rank submits the other's operation before its own "
      "has ended. Where they belong together, give both the same name",
      where(in_order ? fact.owner : fact.holder), where(in_order ? fact.holder : fact.owner));
}

}  // namespace ronde
