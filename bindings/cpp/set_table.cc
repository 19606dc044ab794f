#include "bindings/cpp/set_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/operations.h"
#include "core/base/bytes.h"
#include "core/base/wire_codec.h"
#include "ops/compression/residuals.h"

namespace ronde::elastic {
namespace {

/// The lists of workers that rank 0 has, for the others.
struct ListedSets {
  std::vector<std::vector<WorkerId>> sets;
  static void fields(auto& wire, auto& self) { wire(self.sets); }
};

/// The bytes of rank 0. Collective; the other ranks give none.
Result<std::string> share(Runtime& runtime, const std::string& mine) {
  Submission submission;
  submission.request.kind = Collective::kAllgather;
  submission.request.name = "elastic.process_sets";
  submission.request.tensors = {{DType::kUint8, {static_cast<std::int64_t>(mine.size())}}};
  submission.inputs = {mine.data()};
  submission.outputs = {nullptr};
  RONDE_ASSIGN_OR_RETURN(const OperationPtr done,
                         runtime.operations().run(kGlobalSet, std::move(submission)));
  RONDE_RETURN_IF_ERROR(done->status());
  const OwnedOutput& all = done->owned_outputs().at(0);
  const auto* const text = reinterpret_cast<const char*>(all.data.get());
  return std::string(text, text + element_count(all.shape));
}

std::vector<WorkerId> workers_of(const EpochNote& place, const std::vector<int>& ranks) {
  std::vector<WorkerId> workers;
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    if (index < place.workers.size()) workers.push_back(place.workers[index].worker);
  }
  std::ranges::sort(workers);
  return workers;
}

/// Ascending; empty if one of the workers is gone.
std::vector<int> ranks_of(const EpochNote& place, const std::vector<WorkerId>& workers) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < place.workers.size(); ++rank) {
    if (std::ranges::binary_search(workers, place.workers[rank].worker)) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks.size() == workers.size() ? ranks : std::vector<int>();
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
                            number, fmt::join(found->second.workers, ", ")));
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

std::vector<SetTable::Workers> SetTable::listed() const {
  std::vector<Workers> all;
  for (const auto& [number, set] : sets_) {
    if (!set.lost) all.push_back(set.workers);
  }
  return all;
}

Status SetTable::make_again(Runtime& runtime, const EpochNote& place) {
  if (place.epoch <= 1) return {};
  const std::string mine =
      runtime.rank() == 0 ? encode_wire<std::string>(ListedSets{listed()}) : std::string();
  RONDE_ASSIGN_OR_RETURN(const std::string text, share(runtime, mine));
  RONDE_ASSIGN_OR_RETURN(const auto found,
                         decode_wire<ListedSets>(as_bytes(text), "list of process sets"));
  for (auto& [number, set] : sets_) set.lost = true;
  std::map<int, int> new_ids;
  for (const Workers& workers : found.sets) {
    RONDE_RETURN_IF_ERROR(make(runtime, place, workers, new_ids));
  }
  runtime.residuals().rename_sets(new_ids);
  return {};
}

/// No other public set than the global one may have all ranks.
Status SetTable::make(Runtime& runtime, const EpochNote& place, const Workers& workers,
                      std::map<int, int>& new_ids) {
  const std::vector<int> ranks = ranks_of(place, workers);
  if (ranks.empty()) return {};
  Set made;
  made.workers = workers;
  made.is_private = static_cast<int>(ranks.size()) == runtime.size();
  RONDE_ASSIGN_OR_RETURN(made.id, made.is_private
                                      ? runtime.process_sets().open(ranks, {"elastic", {}})
                                      : runtime.process_sets().add(ranks));
  const auto known = std::ranges::find_if(sets_, [&](const auto& entry) {
    return entry.second.lost && entry.second.workers == workers;
  });
  made.unclaimed = known == sets_.end();
  if (made.unclaimed) {
    sets_.emplace(++last_number_, std::move(made));
  } else {
    new_ids[known->second.id] = made.id;
    made.unclaimed = known->second.unclaimed;
    known->second = std::move(made);
  }
  return {};
}

}  // namespace ronde::elastic
