#include "bindings/runtime/groups/process_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bindings/runtime/groups/group_opener.h"
#include "core/base/join_text.h"

namespace ronde {
namespace {

/// Private sets have no number that people know. Several may have the same ranks.
std::string private_name(SetId id, const std::vector<int>& ranks) {
  constexpr std::size_t kMostListed = 8;
  const SetId place = id - kFirstPrivateSet + 1;
  if (ranks.size() <= kMostListed) {
    return fmt::format("group {} (ranks {})", place, join_text(ranks, ", "));
  }
  return fmt::format("group {} ({} ranks, {} to {})", place, ranks.size(), ranks.front(),
                     ranks.back());
}

}  // namespace

ProcessSets::ProcessSets(const RuntimeState& state, ProcessSetTable& table, GroupKeys& keys,
                         Engine& engine, OpenExecutor open_executor)
    : state_(state),
      table_(table),
      keys_(keys),
      engine_(engine),
      open_executor_(std::move(open_executor)),
      agreements_(exchanges_over(engine), table.ranks(kGlobalSet).value()) {}

bool ProcessSets::is_member(const std::vector<int>& ranks) const {
  return std::binary_search(ranks.begin(), ranks.end(), engine_.topology().rank);
}

/// Waits until all ranks of the job ask for the same change.
Status ProcessSets::announce(const std::string& change, const WaitOptions& options) {
  Submission barrier;  // its name shows in the warning of a rank that does not come
  barrier.request.name = fmt::format("process set change #{}", changes_.fetch_add(1));
  barrier.request.kind = Collective::kBarrier;
  barrier.caller_waits = true;
  RONDE_ASSIGN_OR_RETURN(const OperationPtr operation,
                         engine_.submit(kGlobalSet, std::move(barrier)));
  RONDE_RETURN_IF_ERROR(engine_.wait(operation, options));
  return agreements_.agree(change, options);
}

Result<SetId> ProcessSets::add(std::vector<int> ranks, const WaitOptions& options) {
  RONDE_RETURN_IF_ERROR(state_.usable());
  std::sort(ranks.begin(), ranks.end());
  RONDE_RETURN_IF_ERROR(table_.check_new(ranks));
  const SetId id = table_.next();
  RONDE_RETURN_IF_ERROR(announce(fmt::format("add ranks {}", join_text(ranks, ", ")), options));
  Status mine;
  std::unique_ptr<Executor> executor;
  if (is_member(ranks)) {
    const NewSet set{id, fmt::format("process set {}", table_.next_number())};
    auto opened = open_executor_(static_cast<std::uint64_t>(id), ranks, options, set);
    mine = opened.status();
    if (opened.ok()) executor = std::move(opened).value();
  }
  if (Status status = agreements_.share_outcome(mine, options); !status.ok()) {
    table_.skip();
    return status.with_context(
        fmt::format("the process set of ranks {} could not be opened", join_text(ranks, ", ")));
  }
  table_.add(ranks);
  if (executor) engine_.add_set(id, std::move(ranks), std::move(executor));
  return id;
}

Status ProcessSets::remove(SetId set, const WaitOptions& options) {
  RONDE_RETURN_IF_ERROR(state_.usable());
  if (set == kGlobalSet) return {Code::kInvalidArgument, "the global process set stays"};
  RONDE_ASSIGN_OR_RETURN(const SetId number, table_.number(set));
  engine_.announce_removal(set, true);  // ahead of the first rank that leaves it
  if (Status status = announce(fmt::format("remove set {}", number), options); !status.ok()) {
    engine_.announce_removal(set, false);
    return status;
  }
  table_.remove(set);
  return engine_.leave_set(set, options);
}

Result<SetId> ProcessSets::open(std::vector<int> ranks, const SetOptions& set,
                                const WaitOptions& options) {
  RONDE_RETURN_IF_ERROR(state_.usable());
  std::sort(ranks.begin(), ranks.end());
  RONDE_RETURN_IF_ERROR(table_.check_ranks(ranks));
  if (!is_member(ranks)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("rank {} is not in the set", engine_.topology().rank));
  }
  const std::uint64_t key = keys_.next(ranks);
  EngineExchange exchange(engine_, agreement_key(key), ranks, options);
  RONDE_ASSIGN_OR_RETURN(const SetId id,
                         agree_on_id(exchange, ranks, set.name, table_.next_private()));
  const NewSet opening{id, private_name(id, ranks)};
  auto executor = open_executor_(key, ranks, options, opening);
  RONDE_RETURN_IF_ERROR(first_error(exchange, ranks, executor.status()));
  table_.add_private(id, ranks);
  engine_.add_set(id, std::move(ranks), std::move(executor).value(), set.stall_error);
  return id;
}

Status ProcessSets::close(SetId set, const WaitOptions& options) {
  RONDE_RETURN_IF_ERROR(state_.usable());
  if (set < kFirstPrivateSet) {
    return {Code::kInvalidArgument, fmt::format("set {} was not made by open_set()", set)};
  }
  RONDE_RETURN_IF_ERROR(table_.ranks(set).status());
  table_.remove(set);
  return engine_.leave_set(set, options);
}

}  // namespace ronde
