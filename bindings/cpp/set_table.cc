#include "bindings/cpp/set_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "bindings/runtime/groups/process_sets.h"
#include "core/base/join_text.h"

namespace ronde::elastic {
namespace {

std::vector<WorkerId> workers_of(const EpochNote& place, const std::vector<int>& ranks) {
  std::vector<WorkerId> workers;
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    if (index < place.workers.size()) workers.push_back(place.workers[index].worker);
  }
  std::ranges::sort(workers);
  return workers;
}

}  // namespace

Result<SetId> SetTable::id_of(SetId number) const {
  if (number == kGlobalSet) return number;
  const auto found = sets_.find(number);
  if (found == sets_.end()) {
    return Status(Code::kInvalidArgument, fmt::format("there is no process set {}", number));
  }
  if (!found->second.lost) return found->second.id;
  return Status(Code::kInvalidArgument,
                fmt::format("process set {} was made of the workers {}, not all of which are left",
                            number, join_text(found->second.workers, ", ")));
}

std::optional<SetId> SetTable::claim(const Workers& workers) {
  for (auto& [number, set] : sets_) {
    if (set.workers != workers || !set.unclaimed) continue;
    set.unclaimed = false;
    return number;
  }
  return std::nullopt;
}

Result<SetId> SetTable::add(Runtime& runtime, const EpochNote& place, std::vector<int> ranks) {
  Set made;
  made.workers = workers_of(place, ranks);
  if (const auto claimed = claim(made.workers)) return *claimed;
  RONDE_ASSIGN_OR_RETURN(made.id, runtime.process_sets().add(std::move(ranks)));
  sets_.emplace(++last_number_, std::move(made));
  return last_number_;
}

Status SetTable::remove(Runtime& runtime, SetId number) {
  RONDE_ASSIGN_OR_RETURN(const SetId id, id_of(number));
  ProcessSets& sets = runtime.process_sets();
  const bool is_private = number != kGlobalSet && sets_.at(number).is_private;
  RONDE_RETURN_IF_ERROR(is_private ? sets.close(id) : sets.remove(id));
  sets_.erase(number);
  return {};
}

Status SetTable::make_again(Runtime& runtime, const EpochNote& place) {
  std::vector<KeptSet> mine;
  for (const auto& [number, set] : sets_) {
    if (!set.lost) mine.push_back({set.workers, set.id});
  }
  Ranks ranks(runtime);
  RONDE_ASSIGN_OR_RETURN(auto made, remake_sets(ranks, place, mine));
  for (auto& [number, set] : sets_) set.lost = true;
  for (RemadeSet& one : made) take(std::move(one));
  return {};
}

void SetTable::take(RemadeSet made) {
  const auto known = std::ranges::find_if(sets_, [&](const auto& entry) {
    return entry.second.lost && entry.second.workers == made.workers;
  });
  const bool is_new = known == sets_.end();
  Set& set = is_new ? sets_[++last_number_] : known->second;
  set.unclaimed |= is_new;
  set.id = made.id;
  set.workers = std::move(made.workers);
  set.is_private = made.is_private;
  set.lost = false;
}

}  // namespace ronde::elastic
