// One rank in the agreement on a process set: the operations that it has submitted, and the
// requests that all ranks know by a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/protocol/frames.h"
#include "core/protocol/own_operations.h"
#include "core/protocol/response_cache.h"

namespace ronde {

/// A submission tells the other ranks one of these: a cached operation, a report, or a name that is
/// in flight.
struct Announcement {
  int slot = -1;  ///< Of the cached operation, which needs no report.
  std::optional<Report> report = {};
  std::optional<Notice> duplicate = {};
};

/// Knows what this rank has submitted. Threads: one at a time.
class Member {
 public:
  /// `members`: the job's ranks in the set, ascending; `rank` is one of them. They outlive it.
  Member(int rank, const std::vector<int>& members, std::size_t cache_capacity)
      : rank_(rank), members_(members), cache_(cache_capacity) {}

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const std::vector<int>& members() const noexcept { return members_; }
  [[nodiscard]] bool is_member(int rank) const;

  /// As Negotiator::submit and Negotiator::join. `told` gets the facts that other ranks must know,
  /// also of a duplicate.
  Status submit(const Request& request, std::uint64_t ticket, TimePoint now, InlinePayload payload,
                Announcement& told);
  Status join(std::uint64_t ticket);

  /// The operation is agreed. Moves this rank's ticket and request to `into`; false where this rank
  /// has not submitted it.
  bool take(const OpKey& key, Agreed& into);
  /// As above, for the named operation of a slot.
  bool take_slot(int slot, Agreed& into);
  /// The operation failed before this rank has submitted it: its submission gets `status`.
  void owe(const OpKey& key, const Status& status);
  /// All ranks have joined. Returns the ticket of this rank's join.
  std::uint64_t end_join();
  /// Removes all operations, the join last.
  std::vector<Agreed> take_all();

  /// This rank's operation, by name or number; null where it is not in flight.
  [[nodiscard]] const OwnOperation* in_flight(const OpKey& key) const;
  [[nodiscard]] bool has_joined() const noexcept { return join_ticket_ != 0; }
  /// True if this rank has submitted the operation or takes part with zeros.
  [[nodiscard]] bool takes_part(const OpKey& key) const;
  /// Operations that are in flight, a join included.
  [[nodiscard]] std::size_t pending() const noexcept {
    return own_.size() + (has_joined() ? 1 : 0);
  }
  /// This rank's facts about operations that wait: its own, or that it lacks them.
  [[nodiscard]] std::vector<StallFact> facts(const std::vector<OpKey>& keys, TimePoint now) const;
  /// `it has not waited for allreduce "w"`, of the oldest operation of this rank that is in flight;
  /// empty if there is none.
  [[nodiscard]] std::string describe_not_awaited() const;

  /// The operations in flight.
  [[nodiscard]] OwnOperations& own() noexcept { return own_; }
  [[nodiscard]] const OwnOperations& own() const noexcept { return own_; }
  /// Changed by agreed batches alone.
  [[nodiscard]] ResponseCache& cache() noexcept { return cache_; }
  [[nodiscard]] const ResponseCache& cache() const noexcept { return cache_; }

 private:
  Status submit_otherwise(const Request& request, std::uint64_t ticket, TimePoint now,
                          InlinePayload payload, Announcement& told);
  Status refuse_duplicate(const OwnOperation& in_flight, const Request& again, const OpKey& key,
                          Announcement& told) const;
  /// A named operation that is cached in `slot`: told by a bit if it has nothing to add.
  void tell_known(const Request& request, int slot, InlinePayload payload,
                  Announcement& told) const;
  [[nodiscard]] Report report_of(const Request& request, const OpKey& key, int slot,
                                 InlinePayload payload) const;
  /// Puts this rank's weight into its report; one that is not allowed fails the operation.
  void add_weight(const Request& request, const OpKey& key, Report& report) const;

  const int rank_;
  const std::vector<int>& members_;
  ResponseCache cache_;
  OwnOperations own_;
  std::uint64_t unnamed_ = 0;      // unnamed submissions since the last join
  std::uint64_t join_ticket_ = 0;  // not 0: this rank has joined
  /// The errors of operations that failed before this rank had submitted them.
  std::unordered_map<OpKey, Status, OpKeyHash> owed_;
};

}  // namespace ronde
