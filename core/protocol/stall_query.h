// One query about overdue operations. It travels down a subtree to every rank; the answers are
// joined on their way up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/protocol/frames.h"

namespace ronde {

inline constexpr std::size_t kKeysPerQuery = 32;  ///< Far below a frame's limit.

/// Milliseconds, as in StallFact.
inline std::uint64_t to_ms(Duration duration) noexcept {
  return static_cast<std::uint64_t>(to_ns(duration) / 1'000'000);
}

/// Threads: one at a time.
class StallQuery {
 public:
  /// Starts with the facts of this rank. `children` answers must follow.
  void begin(std::uint64_t id, std::vector<StallFact> own, std::size_t children);
  /// Takes in the answer of child number `child`, which owes one. Ignores facts about other keys.
  void answer(std::size_t child, const std::vector<StallFact>& facts);
  /// Whether this child still owes an answer to query `id`.
  [[nodiscard]] bool expects(std::size_t child, std::uint64_t id) const;

  [[nodiscard]] bool active() const noexcept { return id_ != 0; }
  [[nodiscard]] bool complete() const noexcept { return active() && awaited_ == 0; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// The operation is no longer overdue: removes it.
  void drop(const OpKey& key);
  /// Ends the query and returns all facts, missing ranks ascending.
  std::vector<StallFact> finish();

 private:
  std::uint64_t id_ = 0;  // 0: none
  std::vector<StallFact> facts_;
  std::vector<bool> answered_;
  std::size_t awaited_ = 0;
};

/// `allreduce "w" has waited 60 s for ranks 1, 3`.
std::string stall_text(const StallFact& fact);

/// The end of warnings of stalls.
inline constexpr std::string_view kStallHint =
    "`ronde doctor --job` shows at which line each rank is";

/// The facts whose operations certainly never end. Each operation lacks a rank that submits it only
/// after another of them has ended. All facts are of one query, so they hold together.
std::vector<const StallFact*> endless(const std::vector<StallFact>& facts);
/// `allreduce "w" on rank 0 (a.py:1) and barrier "b" on rank 1 (a.py:2) wait for each other: ...`,
/// of the cycle that keeps this operation, one of endless(), from ending.
std::string cycle_text(const StallFact& fact, const std::vector<const StallFact*>& waiting);

}  // namespace ronde
