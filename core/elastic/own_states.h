// Own states, which belong to one rank of an elastic job alone: who keeps a copy of each, and who
// goes on with that of a worker that is gone. Nothing is sent here: the caller does that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/elastic/agreement.h"

namespace ronde::elastic {

/// The rank that keeps the own state of this one. It is on the next host, so that ranks of one host
/// share the next one's evenly; with one host it is the next rank.
int partner_in(const EpochNote& place);

/// Own states of workers that are gone, as this rank passes them on.
struct Handover {
  std::map<int, WorkerId> given;  ///< By the rank that replaces the worker.
  std::vector<WorkerId> left;     ///< Nobody replaces them: this rank merges theirs into its own.
};

/// Keeps own states of other workers, as of the last two commits at which they were sent, and
/// settles those of workers that are gone. Threads: one.
class OwnStates {
 public:
  /// every: own states are sent at each `every`-th commit; 0: never.
  explicit OwnStates(int every = 0) : every_(every) {}

  /// True if ranks that stay take over what those that leave have.
  [[nodiscard]] bool hands_over() const noexcept { return every_ > 0; }
  /// Counts a commit. True if own states are sent at it.
  [[nodiscard]] bool due();
  /// Keeps what workers have sent at this step; empty states are left out.
  void keep(std::int64_t step, std::map<WorkerId, std::string> states);
  /// All ranks of an epoch have begun: its workers have sent their own states anew.
  void begun(const EpochNote& place);

  /// Begins to settle at the step at which all ranks go on; nothing where they did not go back.
  /// ranks: facts of all.
  void begin(std::optional<std::int64_t> step, std::span<const OwnFacts> ranks,
             const EpochNote& place);
  /// The workers that are gone, of whose state this rank has a copy; ascending.
  [[nodiscard]] OwnOffer offer() const;
  /// offers: of all ranks. The first ranks that hold no state get the offered ones.
  Handover hand_over(int rank, std::span<const OwnOffer> offers);
  /// That of a worker of this rank's offer.
  [[nodiscard]] const std::string& state_of(WorkerId worker) const { return orphans_.at(worker); }
  /// The workers whose states are lost.
  [[nodiscard]] std::vector<WorkerId> lost() const;

 private:
  using ByWorker = std::map<WorkerId, std::string>;

  int every_;
  std::int64_t commits_ = 0;
  std::vector<std::pair<std::int64_t, ByWorker>> held_;  // by step, newest first
  std::set<WorkerId> members_;                           // of the last epoch that has begun
  std::int64_t taken_at_ = -1;  // the step at which states were settled since then,
  std::set<WorkerId> taken_;    // and their workers

  // While an epoch starts.
  std::optional<std::int64_t> step_;
  std::set<WorkerId> living_;
  std::set<WorkerId> settled_;
  std::vector<int> takers_;  // ranks that replace workers
  ByWorker orphans_;
};

}  // namespace ronde::elastic
