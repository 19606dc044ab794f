// The messages of an elastic job's ranks to each other: at commits, and as an epoch starts or ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/base/wire_codec.h"
#include "core/elastic/notes.h"

namespace ronde::elastic {

/// A rank's message at a commit, or once its function has returned. Ranks take the maximum of each
/// byte, so that ranks that have called join() add zeros.
struct CommitFacts {
  bool changed = false;  ///< It knows of a change of the job's workers.
  bool added = false;    ///< Workers wait to join.
  bool removed = false;  ///< Workers are to leave.
  bool running = false;  ///< Its function has not returned.

  [[nodiscard]] bool only_removed() const noexcept { return removed && !added; }
  static void fields(auto& wire, auto& self) {
    wire(self.changed, self.added, self.removed, self.running);
  }
};

/// The steps of copies that a worker that has died on this host has left; -1: none.
struct AdoptedSteps {
  std::int64_t newest = -1;
  std::int64_t older = -1;

  [[nodiscard]] bool has(std::int64_t step) const noexcept {
    return step >= 0 && (newest == step || older == step);
  }
  static void fields(auto& wire, auto& self) { wire(self.newest, self.older); }
};

/// A rank's message at the start of an epoch. One that joins without a state leaves it empty.
struct StartFacts {
  bool holds_state = false;  ///< Others can start from its copies.
  bool alike = false;        ///< Ranks that have restored one step have the same state.
  bool restored = false;     ///< After a failure it goes back to a copy.
  bool skip_sync = false;    ///< It holds the state and needs none.
  std::int64_t certain = 0;
  std::int64_t step = 0;
  std::int64_t older_step = -1;
  std::int64_t checkpoint = 0;  ///< The step of the newest whole one that it can load; 0: none.
  bool damaged = false;         ///< Checkpoints are there, but none is whole.
  bool needs_whole = false;     ///< It may not begin from scratch then.
  AdoptedSteps adopted;

  /// True if it has a copy of this step that it made itself.
  [[nodiscard]] bool has(std::int64_t wanted) const noexcept {
    return step == wanted || older_step == wanted;
  }
  static void fields(auto& wire, auto& self) {
    wire(self.holds_state, self.alike, self.restored, self.skip_sync, self.certain, self.step,
         self.older_step, self.checkpoint, self.damaged, self.needs_whole, self.adopted);
  }
};

/// A rank's message about own states at the start of an epoch.
struct OwnFacts {
  bool holds_state = false;
  WorkerId restored = 0;            ///< The worker whose copies it goes on from; 0: none.
  std::int64_t residual_steps = 0;  ///< The most steps of any residual of compression.
  static void fields(auto& wire, auto& self) {
    wire(self.holds_state, self.restored, self.residual_steps);
  }
};

/// The workers that are gone, of whose own state a rank has a copy; ascending.
struct OwnOffer {
  std::vector<WorkerId> workers;
  static void fields(auto& wire, auto& self) { wire(self.workers); }
};

/// Splits the messages of so many ranks, which lie one after another. Errors: kInvalidArgument.
template <typename Facts>
Result<std::vector<Facts>> decode_ranks(std::span<const std::byte> bytes, int ranks) {
  WireReader reader(bytes, "facts of an elastic job's ranks");
  std::vector<Facts> all(static_cast<std::size_t>(ranks));
  for (Facts& one : all) reader(one);
  RONDE_RETURN_IF_ERROR(reader.finish());
  return all;
}

}  // namespace ronde::elastic
