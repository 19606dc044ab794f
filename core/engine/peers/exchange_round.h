// One exchange of values between some ranks, as one of them sees it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/protocol/tree.h"

namespace ronde {

/// The values by rank.
using ExchangedValues = std::map<int, std::string>;

/// Gathers the values of this rank's part of the tree, then takes those of all ranks, or an error.
/// Values of children may come before begin(). Threads: one at a time.
class ExchangeRound {
 public:
  /// This rank takes part from now on. `ranks` contains it and is ascending.
  void begin(int self, std::vector<int> ranks, TreePlace place, std::string mine);
  /// Adds values from a child; `last`: its part of the tree is complete with them.
  void add(int child, ExchangedValues&& values, bool last);
  /// Adds values from the parent; with the last of them the round ends.
  void add_all(ExchangedValues&& values, bool last);
  /// Ends the round, unless it has ended.
  void fail(const Status& why);

  [[nodiscard]] bool begun() const noexcept { return !ranks_.empty(); }
  /// True once this rank's part of the tree is complete.
  [[nodiscard]] bool gathered() const { return begun() && waits_for().empty(); }
  [[nodiscard]] bool ended() const noexcept { return outcome_.has_value(); }
  /// The values in the order of the ranks, or an error. Only once the round has ended.
  [[nodiscard]] const Result<std::vector<std::string>>& outcome() const { return *outcome_; }
  /// The values so far.
  [[nodiscard]] const ExchangedValues& values() const noexcept { return values_; }
  /// Children whose part of the tree is not complete.
  [[nodiscard]] std::vector<int> waits_for() const;
  [[nodiscard]] bool has_all_of(int child) const { return complete_.contains(child); }
  [[nodiscard]] const TreePlace& place() const noexcept { return place_; }
  [[nodiscard]] const std::vector<int>& ranks() const noexcept { return ranks_; }

  /// Adds ranks that are missing. `unanswered`: added to the number of open questions.
  void take_answer(const std::vector<int>& missing, int unanswered);
  [[nodiscard]] const std::set<int>& missing() const noexcept { return missing_; }
  [[nodiscard]] bool all_answered() const noexcept { return asked_ && unanswered_ <= 0; }

  bool abandoned = false;  ///< The caller no longer waits for the outcome.

 private:
  std::vector<int> ranks_;  // empty before begin()
  TreePlace place_;
  ExchangedValues values_;
  std::set<int> complete_;  // children
  std::optional<Result<std::vector<std::string>>> outcome_;
  std::set<int> missing_;
  int unanswered_ = 0;
  bool asked_ = false;
};

}  // namespace ronde
