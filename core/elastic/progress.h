// How far one rank of an elastic job is: the steps of its copies, and from which of them all ranks
// go on. It moves no data: whoever has the state copies, restores and sends it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/base/status.h"
#include "core/elastic/agreement.h"

namespace ronde::elastic {

/// A rank's steps at the start of an epoch, before it sends or gets the state.
struct Start {
  enum class Restore : std::uint8_t {
    kNothing,
    kNewest,      ///< The newest copy.
    kOlder,       ///< The copy before it, which is the newest from then on.
    kAdoptedOwn,  ///< This rank's own parts of an adopted copy of `step`.
    kAdopted,     ///< All parts of it.
  };
  Restore restore = Restore::kNothing;
  std::optional<std::int64_t> step;  ///< Of the copies from which all ranks go on, if they do.
  bool sends = true;                 ///< The state is sent to all ranks.
  bool keeps_adopted = false;        ///< Adopted copies are of that step; others must go.
  std::int64_t checkpoint = 0;       ///< All ranks go on from that of this step; 0: from none.
  bool loads = false;                ///< This rank loads it.
  bool damaged = false;              ///< There are checkpoints, but none is whole.
  bool needs_whole = false;          ///< Some rank may not begin from scratch then.
};

/// The steps of a rank's two copies. Threads: one.
class Progress {
 public:
  explicit Progress(std::int64_t step = 0) : step_(step), certain_(step) {}

  /// Of the newest copy.
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }
  /// Of the copy before it; -1: there is none.
  [[nodiscard]] std::int64_t older_step() const noexcept { return older_step_; }
  /// The newest step that all ranks have copied.
  [[nodiscard]] std::int64_t certain() const noexcept { return certain_; }
  /// True inside a commit, until all ranks have finished their copies. After a failure then the
  /// state still is as its newest copy, and choose() says whether to go back to the one before.
  [[nodiscard]] bool is_undecided() const noexcept { return certain_ < step_; }
  /// The rank that sends the state to the others.
  [[nodiscard]] int root() const noexcept { return root_; }
  void set_root(int root) noexcept { root_ = root; }

  /// The step of the next copy.
  [[nodiscard]] std::int64_t next_step() const noexcept { return next_.value_or(step_ + 1); }
  /// A copy of next_step() was made.
  void copied() noexcept;
  /// A commit has made copies since `before`; other ranks may not have finished theirs.
  void copied_since(const Progress& before) noexcept;
  /// All ranks have finished their copies.
  void committed() noexcept { certain_ = step_; }
  /// All ranks have got the state; the newest copy of any was of `newest`. A rank that has died may
  /// have copied the step after it.
  void synced(std::int64_t newest) noexcept { next_ = newest + 2; }
  /// All ranks of the epoch have begun.
  void begun() noexcept;

  /// This rank's message at the start of an epoch; the caller adds the rest.
  [[nodiscard]] StartFacts facts() const noexcept;
  /// Chooses the step from which all go on, and the rank that sends it. `mine`: facts of this rank
  /// as they are now, which it may not have told. Errors: kInternal.
  Result<Start> choose(const StartFacts& mine, std::span<const StartFacts> ranks);
  /// The same where nobody has copies.
  Start choose_checkpoint(const StartFacts& mine, std::span<const StartFacts> ranks);

 private:
  Result<Start> go_on(const StartFacts& mine, std::span<const StartFacts> ranks);
  Start::Restore go_to(std::int64_t step, const StartFacts& mine,
                       std::span<const StartFacts> ranks);
  Start resume(const StartFacts& mine, std::span<const StartFacts> ranks);

  std::int64_t step_;
  std::int64_t older_step_ = -1;
  std::int64_t certain_;
  std::optional<std::int64_t> next_;
  int root_ = 0;
};

}  // namespace ronde::elastic
