// The worker's end of the notes between a worker of an elastic job and its launcher.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

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

/// Exchanges notes with the launcher. Once the launcher is gone, all calls fail with kUnavailable.
/// Threads: any; next_epoch() by one at a time.
class Member {
 public:
  /// Takes a SOCK_SEQPACKET socket. Programs that this process starts do not inherit it.
  Member(FileDescriptor socket, WorkerId worker);

  /// This process's, on the descriptor that RONDE_ELASTIC_FD names; it lives as long as the
  /// process. Null if the variable is unset, and in a child forked later. Errors: kInvalidArgument
  /// if the descriptor is no such socket.
  static Result<Member*> of_process();

  /// The socket's descriptor, for signal handlers, which may only send whole notes.
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  [[nodiscard]] WorkerId worker() const noexcept { return worker_; }
  /// The last epoch that it was given; 0: none yet.
  [[nodiscard]] EpochId epoch() const RONDE_EXCLUDES(mutex_);

  /// Tells the launcher that the worker is ready, and waits for the answer. Fills in
  /// ready.last_epoch. Blocks. Errors: kTimeout, kUnavailable, those of options.interrupt; the next
  /// call then takes the answer.
  Result<Answer> next_epoch(ReadyNote ready, const WaitOptions& options) RONDE_EXCLUDES(mutex_);

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
  Status begin_wait(ReadyNote ready) RONDE_EXCLUDES(mutex_);
  Result<std::optional<Answer>> take_answer() RONDE_EXCLUDES(mutex_);
  void wait_for_note(TimePoint deadline) const;
  Status send_message(const std::string& message, int file = -1) RONDE_EXCLUDES(mutex_);
  Status receive() RONDE_REQUIRES(mutex_);
  Status receive_note(std::size_t bytes) RONDE_REQUIRES(mutex_);
  Status take(const std::string& message) RONDE_REQUIRES(mutex_);
  Status lose() RONDE_REQUIRES(mutex_);

  const FileDescriptor socket_;
  const WorkerId worker_;
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
