// This process as a worker of an elastic job: its place in one epoch after another. An epoch is a
// job of fixed ranks; only the launcher begins one.
#pragma once

#include <optional>
#include <utility>

#include "bindings/elastic/commit_store.h"
#include "bindings/elastic/member.h"
#include "core/elastic/notes.h"
#include "core/elastic/participant.h"
#include "ronde/error.h"
#include "ronde/ronde.h"

namespace ronde::elastic {

/// True for an error of this epoch alone: the next one may go on.
bool recoverable(const Error& error);

/// Takes part in epochs, for one process. Threads: the one that calls init() and run().
class Worker {
 public:
  /// This process's; null without a launcher of elastic jobs. Throws InvalidArgument for a
  /// descriptor that is no launcher's.
  static Worker* of_process();

  /// Makes `job` the launcher's next epoch whose ranks can all be reached. False if this worker is
  /// to end, with status 0. Blocks. Throws JobFailed, LauncherLost, and errors that would come
  /// again.
  [[nodiscard]] bool join(Job::Impl& job);
  /// Remembers what ended the epoch, for the launcher. Its first cause counts.
  void note_failure(const Error& error);

  /// The newest change that should end this epoch, later than `serial`; none without one. Blocks:
  /// never. Throws LauncherLost.
  std::optional<Change> change_after(std::uint64_t& serial);
  /// Tells the launcher, once, that others can start from this worker's state.
  void hold_state();
  [[nodiscard]] bool holds_state() const noexcept { return part_.holds_state; }
  /// The copies of a worker that has died on this host, once; empty where there are none. Until
  /// end_adoption() the job can go on from them.
  [[nodiscard]] CommitStore take_copies() { return std::move(inherited_); }
  void end_adoption() noexcept { part_.has_copies = false; }
  /// True if some rank of the current epoch holds the state.
  [[nodiscard]] bool state_is_held() const;
  /// The job can go on from a checkpoint that this worker has, or not.
  void can_load(bool checkpoint) noexcept { part_.has_checkpoint = checkpoint; }
  /// Tells the launcher that the worker's function has returned on all ranks.
  void finish();
  [[nodiscard]] Member& member() noexcept { return member_; }
  /// Its place in the current epoch, which it has.
  [[nodiscard]] const EpochNote& place() const noexcept { return *part_.place(); }

 private:
  explicit Worker(Member& member);
  [[nodiscard]] bool next_place();
  Status enter(Job::Impl& job);

  Member& member_;
  Participant part_;
  CommitStore inherited_;
};

}  // namespace ronde::elastic
