// The operations of one rank from their submission until all ranks have agreed on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/protocol/frames.h"
#include "core/protocol/inline_payload.h"
#include "core/protocol/lateness.h"
#include "core/protocol/request.h"
#include "core/protocol/response_cache.h"
#include "core/protocol/tree.h"

namespace ronde {

/// A submission tells the other ranks one of these: a cached operation, a report, or a name that is
/// in flight.
struct Announcement {
  int slot = -1;  ///< Of the cached operation, which needs no report.
  std::optional<Report> report = {};
  std::optional<Notice> duplicate = {};
};

/// One submission of this rank.
struct OwnOperation {
  std::uint64_t ticket = 0;
  Request request;
  Lateness lateness;  ///< Since it was submitted. Reports go to the root.
};

/// Keeps this rank's operations that are in flight. Those whose request is cached are found by
/// their slot, the others by their key. Threads: one at a time.
class OwnOperations {
 public:
  /// Both outlive it.
  OwnOperations(const TreeNode& node, const ResponseCache& cache) : node_(node), cache_(cache) {}

  /// As Member::submit and Member::join. `told` gets the facts that other ranks must know, also of
  /// a duplicate.
  Status submit(const Request& request, std::uint64_t ticket, TimePoint now, InlinePayload payload,
                Announcement& told);
  Status join(std::uint64_t ticket);

  /// The operation is agreed. Moves its ticket and request to `into`; false where this rank has not
  /// submitted it.
  bool take(const OpKey& key, Agreed& into);
  /// As above, for the named operation of a slot.
  bool take(int slot, Agreed& into);
  /// All ranks have joined. Returns the ticket of this rank's join.
  std::uint64_t take_join();
  /// Removes all operations, the join last.
  std::vector<Agreed> take_all();
  /// The operation failed before this rank has submitted it: its submission gets `status`.
  void owe(const OpKey& key, const Status& status);
  /// The slot gets another use: its operation is found by name from now on.
  void leave_slot(int slot);

  /// An operation in flight, or null. Valid until the next change.
  [[nodiscard]] const OwnOperation* find(const OpKey& key) const;
  /// As above, of those that are found by their slot.
  [[nodiscard]] const OwnOperation* find(int slot) const noexcept;
  /// True if this rank has joined, and not all have.
  [[nodiscard]] bool has_joined() const noexcept { return join_ticket_ != 0; }
  /// True if this rank has submitted the operation or takes part with zeros.
  [[nodiscard]] bool takes_part(const OpKey& key) const {
    return has_joined() || find(key) != nullptr;
  }
  /// How many are in flight, without a join.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Calls `visit` with the OpKey and the OwnOperation of each, in no particular order.
  void for_each(const auto& visit) { visit_all(*this, visit); }
  void for_each(const auto& visit) const { visit_all(*this, visit); }

  /// This rank's facts about operations that wait: its own, or that it lacks them.
  [[nodiscard]] std::vector<StallFact> facts(const std::vector<OpKey>& keys, TimePoint now) const;
  /// `it has not waited for allreduce "w"`, of the oldest one; empty if there is none.
  [[nodiscard]] std::string describe_not_awaited() const;

 private:
  static void visit_all(auto& self, const auto& visit) {
    for (auto& operation : self.by_slot_) {
      if (operation) visit(OpKey{operation->request.name, 0}, *operation);
    }
    for (auto& [key, operation] : self.by_key_) visit(key, operation);
  }
  Status submit_otherwise(const Request& request, std::uint64_t ticket, TimePoint now,
                          InlinePayload payload, Announcement& told);
  Status refuse_duplicate(const OwnOperation& in_flight, const Request& again, const OpKey& key,
                          Announcement& told) const;
  /// Keeps an operation that is cached in `slot`. A bit tells of it if it has nothing to add.
  void add_known(OwnOperation operation, int slot, InlinePayload payload, Announcement& told);
  [[nodiscard]] Report report_of(const Request& request, const OpKey& key, int slot,
                                 InlinePayload payload) const;
  /// Puts this rank's weight into its report; one that is not allowed fails the operation.
  void add_weight(const Request& request, const OpKey& key, Report& report) const;

  const TreeNode& node_;
  const ResponseCache& cache_;
  std::vector<std::optional<OwnOperation>> by_slot_;
  std::unordered_map<OpKey, OwnOperation, OpKeyHash> by_key_;
  std::size_t size_ = 0;           // of both
  std::uint64_t unnamed_ = 0;      // unnamed submissions since the last join
  std::uint64_t join_ticket_ = 0;  // not 0: this rank has joined
  /// The errors of operations that failed before this rank had submitted them.
  std::unordered_map<OpKey, Status, OpKeyHash> owed_;
};

}  // namespace ronde
