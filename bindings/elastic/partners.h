// Own states of ranks, of which partners on other hosts keep copies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/elastic/ranks.h"
#include "core/elastic/own_states.h"

namespace ronde::elastic {

/// Own states of workers that are gone.
struct SettledStates {
  std::optional<std::string> mine;   ///< That of the worker whom this rank replaces.
  std::vector<std::string> orphans;  ///< Nobody takes them: this rank merges them into its own.
  std::vector<WorkerId> lost;        ///< The workers of whose states there is no copy.
  std::int64_t residual_steps = 0;   ///< The most of any rank, see OwnFacts.
};

/// Sends own states to partners, and those of workers that are gone to others. Threads: one.
class Partners {
 public:
  /// every: partners get own states at each `every`-th commit; 0: never.
  explicit Partners(int every = 0) : states_(every) {}

  [[nodiscard]] bool hands_over() const noexcept { return states_.hands_over(); }
  /// Counts a commit. True if own states are sent at it.
  [[nodiscard]] bool due() { return states_.due(); }
  /// True once, on rank 0, where all ranks are on one host: its loss would lose the copies, too.
  [[nodiscard]] bool warns_of_one_host(const EpochNote& place);
  /// Sends this rank's own state of a step, and keeps what it gets. Nothing is kept once some rank
  /// has called join(). Collective. Errors: those of operations.
  Status send(Ranks& ranks, const EpochNote& place, std::int64_t step, std::string own);
  /// Gives the states of workers that are gone to others. step: at which all ranks go on; nothing
  /// if they did not go back. Collective. Errors: those of operations.
  Result<SettledStates> settle(Ranks& ranks, const EpochNote& place,
                               std::optional<std::int64_t> step, const OwnFacts& mine);
  /// All ranks of the epoch have begun.
  void begun(const EpochNote& place) { states_.begun(place); }

 private:
  Status pass_on(Ranks& ranks, int rank, SettledStates& settled);

  OwnStates states_;
  bool warned_ = false;
};

}  // namespace ronde::elastic
