// The facts of all ranks about operations that do not end: which never will, and how people read
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/protocol/frames.h"
#include "core/protocol/request.h"

namespace ronde {

/// Milliseconds, as in StallFact.
inline std::uint64_t to_ms(Duration duration) noexcept {
  return static_cast<std::uint64_t>(to_ns(duration) / 1'000'000);
}

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

/// "rank 1 probably has fewer batches than the others ... Give all ranks ...": the cause and its
/// remedies, the same for all ways to notice it. `ranks` is not empty. `otherwise`: another cause
/// that is possible; may be empty.
std::string fewer_batches_text(std::span<const int> ranks, std::string_view otherwise = {});

/// `; allreduce "w" (train.py:9) waits for it`, with the likely cause: an operation that waits for
/// `rank`, which has left the job. `known`: the rank submitted it before. `in_order`: it gave no
/// reason why it leaves.
std::string waits_for_leaver_text(const Request& request, int rank, bool known, bool in_order);

}  // namespace ronde
