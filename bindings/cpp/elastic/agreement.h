// The agreements between the ranks of an elastic job: at commits, at the start and at the end.
//
// One small allreduce of maxima serves commits and ends, so that ranks with unequal numbers of
// commits do not wait for each other forever. Ranks that have joined add zeros.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/elastic/notes.h"
#include "ronde/ronde.h"

namespace ronde::elastic {

/// The facts that all ranks share after an exchange.
struct Agreement {
  std::optional<Change> change;  ///< The changes that any rank has learned of.
  bool running = false;          ///< Some rank has not returned.
};

/// Agrees on changes. `change`: that this rank has learned of; `returned`: it needs no others any
/// more. A worker that is asked to leave adds its leave. Collective. Throws errors of operations.
Agreement agree(Job& job, std::optional<Change> change, bool returned);

/// The newest step of which any rank has a copy. Collective.
std::int64_t newest_step(Job& job, std::int64_t step);

/// The steps of copies that a worker that has died on this host has left; -1: none.
struct AdoptedSteps {
  std::int64_t newest = -1;
  std::int64_t older = -1;

  [[nodiscard]] bool has(std::int64_t step) const noexcept {
    return step >= 0 && (newest == step || older == step);
  }
};

/// A rank at the start of an epoch.
struct StartRow {
  bool holds_state = false;
  bool restored = false;   ///< It has gone back to its newest copy.
  bool skip_sync = false;  ///< It holds the state and needs none.
  std::int64_t certain = 0;
  std::int64_t step = 0;
  std::int64_t older_step = -1;
  AdoptedSteps adopted;

  /// True if it has a copy of `step` that it made itself.
  [[nodiscard]] bool has(std::int64_t wanted) const noexcept {
    return step == wanted || older_step == wanted;
  }
};

/// All ranks' rows, by rank. Collective.
std::vector<StartRow> exchange_starts(Job& job, const StartRow& mine);

/// Returns once all ranks have called it. Collective.
void meet(Job& job);

}  // namespace ronde::elastic
