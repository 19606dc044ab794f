#include "bindings/runtime/agreements.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "bindings/runtime/group_keys.h"

namespace ronde {

std::unique_ptr<Exchange> Agreements::next_exchange(const WaitOptions& options) {
  return make_(job_key(rounds_.fetch_add(1)), everyone_, options);
}

Status Agreements::agree(const std::string& change, const WaitOptions& options) {
  RONDE_ASSIGN_OR_RETURN(const auto changes, next_exchange(options)->allgather(change));
  for (std::size_t r = 1; r < changes.size(); ++r) {
    if (changes[r] != changes[0]) {
      return {Code::kMismatch, fmt::format("process sets: rank 0 asked to {}, rank {} to {}",
                                           changes[0], r, changes[r])};
    }
  }
  return {};
}

Status Agreements::share_outcome(const Status& mine, const WaitOptions& options) {
  return first_error(*next_exchange(options), everyone_, mine);
}

Status first_error(Exchange& exchange, const std::vector<int>& ranks, const Status& mine) {
  RONDE_ASSIGN_OR_RETURN(const auto outcomes, exchange.allgather(mine.message()));
  if (!mine.ok()) return mine;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].empty()) {
      return {Code::kUnavailable, fmt::format("rank {}: {}", ranks[i], outcomes[i])};
    }
  }
  return {};
}

Result<SetId> agree_on_id(Exchange& exchange, const std::vector<int>& ranks,
                          const std::string& name, SetId least) {
  RONDE_ASSIGN_OR_RETURN(const auto names, exchange.allgather(name));
  RONDE_ASSIGN_OR_RETURN(const auto ids, exchange.allgather(fmt::to_string(least)));
  SetId id = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (names[i] != names[0]) {
      return Status(Code::kMismatch,
                    fmt::format("rank {} opens the set \"{}\", rank {} the set \"{}\"", ranks[0],
                                names[0], ranks[i], names[i]));
    }
    SetId theirs = 0;
    std::from_chars(ids[i].data(), ids[i].data() + ids[i].size(), theirs);
    id = std::max(id, theirs);
  }
  return id;
}

}  // namespace ronde
