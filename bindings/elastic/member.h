// The worker's end of the notes between a worker of an elastic job and its launcher.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/elastic/commit_store.h"
#include "core/base/abort.h"
#include "core/base/mutex.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"
#include "core/elastic/notes.h"
#include "core/engine/driving/interrupts.h"

namespace ronde::elastic {

/// The answer to a ready worker: its place in a new epoch, or its dismissal.
using Answer = std::variant<EpochNote, DismissedNote>;

/// Settings by the names of their variables.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// A worker's part in one epoch after another. It exchanges notes with the launcher: once that is
/// gone, all notes fail with kUnavailable. Threads: one; any for epoch(), changes(), send() and
/// cancel_source().
class Member {
 public:
  /// Takes a SOCK_SEQPACKET socket. Programs that this process starts do not inherit it.
  /// copies: of a worker that has died on this host.
  Member(FileDescriptor socket, WorkerId worker, CommitStore copies = {});

  /// This process's, on the descriptor that RONDE_ELASTIC_FD names; it lives as long as the
  /// process. Null if the variable is unset, and in a child forked later. Errors: kInvalidArgument
  /// if the descriptor is no such socket.
  static Result<Member*> of_process();

  /// The socket's descriptor, for signal handlers, which may only send whole notes.
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  [[nodiscard]] WorkerId worker() const noexcept { return worker_; }
  /// The last epoch that it was given; 0: none yet.
  [[nodiscard]] EpochId epoch() const RONDE_EXCLUDES(mutex_);

  /// Tells the launcher that the worker is ready, and waits for the answer. Blocks. Errors:
  /// kTimeout, kUnavailable, those of options.interrupt; the next call then takes the answer.
  Result<Answer> next_epoch(const WaitOptions& options) RONDE_EXCLUDES(mutex_);
  /// Its place in the last epoch; null before the first.
  [[nodiscard]] const EpochNote* place() const noexcept { return place_ ? &*place_ : nullptr; }
  /// True if some rank of that epoch holds the state.
  [[nodiscard]] bool state_is_held() const;
  /// The epoch's ranks are connected.
  void began() noexcept { began_ = true; }
  /// Remembers what ended the epoch, for the launcher: the first cause counts. rank: one that was
  /// lost; -1: none.
  void failed(const std::string& why, int rank);

  /// Others can start from this worker's state. Tells the launcher once. Errors: kUnavailable.
  Status hold_state() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] bool holds_state() const noexcept { return holds_state_; }
  /// The job can go on from a checkpoint that this worker has, or not.
  void can_load(bool checkpoint) noexcept { has_checkpoint_ = checkpoint; }
  /// The copies of a worker that has died on this host, once; empty where there are none. Until
  /// end_adoption() the job can go on from them.
  [[nodiscard]] CommitStore take_copies() { return std::move(copies_); }
  void end_adoption() noexcept { has_copies_ = false; }
  /// From now on the host's agent gets each memory file of the store, so that it outlives this
  /// process. The member outlives the store. Errors: kUnavailable.
  Status share(CommitStore& store);

  /// The newest change of the current epoch; serial 0 if there is none. Blocks: never; takes one
  /// system call. Errors: kUnavailable.
  Result<ChangedNote> changes() RONDE_EXCLUDES(mutex_);

  /// Ends the start of a job early: with kAborted if it is the current epoch, which is void, and
  /// with kUnavailable once the launcher is gone. For other jobs than the epoch's it does nothing.
  [[nodiscard]] CancelSource cancel_source(std::string job_id) RONDE_EXCLUDES(mutex_);

  /// Sends a note. Blocks: never. Errors: kUnavailable.
  template <typename Note>
  Status send(const Note& note) RONDE_EXCLUDES(mutex_) {
    return send_message(encode_note(note));
  }
  /// Gives the host's agent the memory file of copy 0 or 1. Blocks: never. Errors: kUnavailable.
  Status send_copy(int copy, int file) RONDE_EXCLUDES(mutex_) {
    return send_message(encode_note(CopyNote{static_cast<std::uint8_t>(copy)}), file);
  }
  /// Tells the launcher that the worker's function has returned.
  Status send_finished() { return send(FinishedNote{epoch()}); }

  /// The settings of a place. They come before those of the environment. The secret is in a memory
  /// file, which lives until the next call. Errors: kUnavailable without descriptors.
  Result<Settings> settings(const EpochNote& place) RONDE_EXCLUDES(mutex_);

 private:
  Status check_epoch() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] ReadyNote ready() const;
  Status begin_wait() RONDE_EXCLUDES(mutex_);
  Result<std::optional<Answer>> take_answer() RONDE_EXCLUDES(mutex_);
  void wait_for_note(TimePoint deadline) const;
  Status send_message(const std::string& message, int file = -1) RONDE_EXCLUDES(mutex_);
  Status receive() RONDE_REQUIRES(mutex_);
  Status receive_note(std::size_t bytes) RONDE_REQUIRES(mutex_);
  Status take(const std::string& message) RONDE_REQUIRES(mutex_);
  Status lose() RONDE_REQUIRES(mutex_);

  const FileDescriptor socket_;
  const WorkerId worker_;

  std::optional<EpochNote> place_;
  bool began_ = false;
  bool holds_state_ = false;
  bool has_copies_;
  bool has_checkpoint_ = false;
  std::set<WorkerId> suspects_;  // workers that it has lost
  std::string why_;              // the end of the last epoch
  CommitStore copies_;

  mutable Mutex mutex_;
  EpochId epoch_ RONDE_GUARDED_BY(mutex_) = 0;
  std::optional<Answer> answer_ RONDE_GUARDED_BY(mutex_);  // that nobody has taken yet
  std::string job_id_ RONDE_GUARDED_BY(mutex_);            // of the current epoch
  ChangedNote changed_ RONDE_GUARDED_BY(mutex_);           // the newest, of any epoch
  VoidNote void_ RONDE_GUARDED_BY(mutex_);                 // the newest, of any epoch
  Status failure_ RONDE_GUARDED_BY(mutex_);                // once there is no launcher
  FileDescriptor secret_ RONDE_GUARDED_BY(mutex_);
};

/// The configuration of a place: the settings over those of `config`.
Result<Config> config_with(Config config, const Settings& settings);

}  // namespace ronde::elastic
