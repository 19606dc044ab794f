// Makes and removes process sets, by calls that all of their ranks make.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bindings/runtime/groups/agreements.h"
#include "bindings/runtime/groups/process_set_table.h"
#include "bindings/runtime/groups/runtime_state.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/engine/engine.h"
#include "core/ports/executor.h"

namespace ronde {

/// The options of a private set.
struct SetOptions {
  std::string name;         ///< Compared among the members.
  Duration stall_error{0};  ///< When an operation that some have not submitted fails; zero: never.
};

/// A set whose executor is to be opened.
struct NewSet {
  SetId id = kGlobalSet;
  std::string name;  ///< In timelines: "process set 1", "group 1 (ranks 0, 1)".
};

/// Changes the process sets of a job, the same on all their ranks.
/// Threads: any; calls that must match come in the same order on all ranks.
class ProcessSets {
 public:
  /// Opens the executor of `ranks` for a set; collective over them.
  using OpenExecutor = std::function<Result<std::unique_ptr<Executor>>(
      std::uint64_t key, const std::vector<int>& ranks, const WaitOptions& options,
      const NewSet& set)>;

  /// All references outlive it; `engine` until `state` ends.
  ProcessSets(const RuntimeState& state, ProcessSetTable& table, GroupKeys& keys, Engine& engine,
              OpenExecutor open_executor);

  /// Makes a public set of the job's `ranks`. Collective over all ranks of the job. Blocks.
  /// Errors: kMismatch where ranks disagree; kInvalidArgument: empty, unknown or double ranks, or
  /// equal to an existing set (the message names its id).
  Result<SetId> add(std::vector<int> ranks, const WaitOptions& options = {});
  /// Removes a public set, except the global one; collective over all ranks of the job. Agreed
  /// operations end; all others fail with kAborted on all its ranks. Blocks until nothing of this
  /// rank is in flight there. Errors: kTimeout, kInterrupted: if all ranks had called it by then,
  /// it is removed all the same, and ranks() does not know it.
  Status remove(SetId set, const WaitOptions& options = {});
  /// Makes a private set. Collective over its `ranks`; calls with the same ranks match in order,
  /// and any number of such sets may have the same ranks. Blocks.
  /// Errors: kInvalidArgument: as add(), or without this rank; kMismatch where the names differ;
  /// kTimeout naming the ranks that did not come.
  Result<SetId> open(std::vector<int> ranks, const SetOptions& set,
                     const WaitOptions& options = {});
  /// Leaves a private set: agreed operations end, all others fail on all members, naming this rank.
  /// Blocks until nothing of this rank is in flight. Errors: kTimeout; it has left all the same.
  Status close(SetId set, const WaitOptions& options = {});

  /// Ranks of a set, ascending. Errors: kInvalidArgument where there is none.
  [[nodiscard]] Result<std::vector<int>> ranks(SetId set) const { return table_.ranks(set); }
  /// As ProcessSetTable::number().
  [[nodiscard]] Result<SetId> number(SetId set) const { return table_.number(set); }
  /// Ids of the public sets.
  [[nodiscard]] std::vector<SetId> ids() const { return table_.ids(); }

 private:
  Status announce(const std::string& change, const WaitOptions& options);
  [[nodiscard]] bool is_member(const std::vector<int>& ranks) const;

  const RuntimeState& state_;
  ProcessSetTable& table_;
  GroupKeys& keys_;
  Engine& engine_;
  const OpenExecutor open_executor_;
  Agreements agreements_;
  std::atomic<int> changes_{0};
};

}  // namespace ronde
