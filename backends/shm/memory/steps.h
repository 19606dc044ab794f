// The synchronisation of all collectives: steps that every rank of the group takes.
//
// In step s a rank writes into its own slot s % kSlots and arrives, which publishes the slot. It
// reads other ranks' slots of step s once those have arrived. Two rules make slots reusable without
// any further flag:
//   - a rank that arrives at step s has finished reading all slots of steps <= s - 2;
//   - a rank writes for step s only after all ranks have arrived at step s - 2, hence are done
//     with step s - 4, which used the same slot.
// A collective that reads a slot one step later declares it by read_late().
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/shm/memory/layout.h"
#include "backends/shm/memory/wait.h"
#include "core/base/status.h"

namespace ronde::shm {

/// Number of a step since the group was opened, modulo 2^32.
using Step = std::uint32_t;

/// One rank's view of the group's steps. Threads: one at a time.
class Steps {
 public:
  /// `base` is the group's memory and must outlive this.
  Steps(const Layout& layout, std::byte* base, int ranks, int rank, SpinLimit spin);

  [[nodiscard]] int ranks() const noexcept { return static_cast<int>(seen_.size()); }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] std::size_t slot_bytes() const noexcept { return layout_.slot_bytes(); }
  /// True if ranks outnumber cores, the same on all ranks.
  [[nodiscard]] bool crowded() const noexcept { return awaiter_.crowded(); }
  /// The step that is being written.
  [[nodiscard]] Step current() const noexcept { return step_; }

  /// Waits until this rank's slot of the current step may be written. Errors: the abort's status.
  Status begin(const Stop& stop);

  /// In the next `steps` steps ranks read others' slots one step later than the first rule says.
  /// Until two steps after them begin() waits for one step more. The same on all ranks.
  void read_late(Step steps) noexcept { late_until_ = step_ + steps + 2; }

  /// `rank`'s slot of `step`; own slots may be written between begin() and arrive().
  [[nodiscard]] std::byte* slot(int rank, Step step) const noexcept {
    return layout_.slot(base_, rank, step);
  }

  /// Sets a number for the others in the current step. Published by arrive().
  void set_note(std::uint64_t value) noexcept;
  [[nodiscard]] std::uint64_t note(int rank, Step step) const noexcept;

  /// Publishes the current step's slot and goes on to the next step.
  void arrive() noexcept;

  /// Blocks until `rank` (wait_all: every rank) has arrived at `step`.
  /// Errors: the abort's status within a few milliseconds; if it never will, because the rank has
  /// left, that rank's error.
  Status wait(int rank, Step step, const Stop& stop);
  Status wait_all(Step step, const Stop& stop);

  /// Ends the others' waits for this rank, which takes no step any more. They get `why` where it is
  /// about a rank, else kAborted. Only the first call counts.
  void leave(const Status& why) noexcept;

 private:
  bool has_arrived(std::size_t rank, Step step) noexcept;
  bool all_have_arrived(Step step) noexcept;
  [[nodiscard]] bool never_arrives(std::size_t rank, Step step) noexcept;
  [[nodiscard]] Status error_of(int gone) const;
  /// Waits until `ready()`, in the end asleep on `word`, announced in `sleepers`. never(): the rank
  /// that will not arrive, or -1.
  template <typename Ready, typename Never>
  Status await(Ready ready, Never never, std::atomic<std::uint32_t>& word,
               std::atomic<std::uint32_t>& sleepers, const Stop& stop);

  const Layout layout_;
  std::byte* const base_;
  const int rank_;
  Awaiter awaiter_;
  Step step_ = 0;
  Step late_until_ = 0;
  Header& header_;
  std::vector<Flag*> flags_;
  std::vector<std::uint32_t> seen_;  ///< Last value read of each rank's flag.
};

}  // namespace ronde::shm
