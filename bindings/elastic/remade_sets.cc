#include "bindings/elastic/remade_sets.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "bindings/runtime/groups/process_sets.h"
#include "core/base/bytes.h"
#include "core/base/wire_codec.h"
#include "ops/compression/residuals.h"

namespace ronde::elastic {
namespace {

using Workers = std::vector<WorkerId>;

/// The lists of workers that rank 0 has, for the others.
struct ListedSets {
  std::vector<Workers> sets;
  static void fields(auto& wire, auto& self) { wire(self.sets); }
};

/// Ascending; empty if one of the workers is gone.
std::vector<int> ranks_of(const EpochNote& place, const Workers& workers) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < place.workers.size(); ++rank) {
    if (std::ranges::binary_search(workers, place.workers[rank].worker)) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks.size() == workers.size() ? ranks : std::vector<int>();
}

/// No other public set than the global one may have all ranks.
Status make(Runtime& runtime, RemadeSet& set, const WaitOptions& options) {
  set.is_private = static_cast<int>(set.ranks.size()) == runtime.size();
  ProcessSets& sets = runtime.process_sets();
  RONDE_ASSIGN_OR_RETURN(set.id, set.is_private ? sets.open(set.ranks, {"elastic", {}}, options)
                                                : sets.add(set.ranks, options));
  return {};
}

}  // namespace

Result<std::vector<RemadeSet>> remake_sets(Ranks& ranks, const EpochNote& place,
                                           const std::vector<KeptSet>& mine,
                                           const WaitOptions& options) {
  std::vector<RemadeSet> made;
  if (place.epoch <= 1) return made;
  Runtime& runtime = ranks.runtime();
  ListedSets listed;
  std::map<Workers, int> last_ids;
  for (const KeptSet& set : mine) {
    listed.sets.push_back(set.workers);
    last_ids[set.workers] = set.id;
  }
  const std::string told = runtime.rank() == 0 ? encode_wire<std::string>(listed) : std::string();
  RONDE_ASSIGN_OR_RETURN(const std::string text, ranks.gather_bytes("elastic.process_sets", told));
  RONDE_ASSIGN_OR_RETURN(const auto found,
                         decode_wire<ListedSets>(as_bytes(text), "list of process sets"));
  std::map<int, int> new_ids;
  for (const Workers& workers : found.sets) {
    RemadeSet set{workers, ranks_of(place, workers)};
    if (set.ranks.empty()) continue;
    RONDE_RETURN_IF_ERROR(make(runtime, set, options));
    if (const auto last = last_ids.find(workers); last != last_ids.end()) {
      new_ids[last->second] = set.id;
    }
    made.push_back(std::move(set));
  }
  runtime.residuals().rename_sets(new_ids);
  return made;
}

}  // namespace ronde::elastic
