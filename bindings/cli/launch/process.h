// Processes of the launcher: children that die with their parent, signals as events, processes that
// do not run on.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/launch/messages.h"
#include "bindings/descriptors/passed.h"
#include "core/base/clock.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// A process to start, with its descriptors.
struct ChildSpec {
  std::vector<std::string> command;                ///< Searched in PATH of this process.
  EnvironmentList environment = {};                ///< Replaces the same names of this process's.
  std::vector<PassedDescriptor> descriptors = {};  ///< It inherits them, and their variables.
  std::optional<cpu_set_t> cpus = {};              ///< The cores on which it may run.
  int death_signal = 0;                            ///< Sent by the kernel when this thread ends.
  int input = -1;                                  ///< Standard input, or -1 for /dev/null.
  int output = -1;                                 ///< Standard output, or -1 to share this one's.
  int error = -1;                                  ///< Standard error, likewise.
};

/// Why a command could not be started, as a shell would say it: 127 not found, 126 otherwise.
struct StartFailure {
  int exit_status = 127;
  std::string text;
};

/// A started process, or why there is none (`pid` is -1).
struct StartedChild {
  pid_t pid = -1;
  StartFailure failure;
};

/// Starts a process in a process group of its own, with all signals at their defaults. Blocks
/// until it runs its program or has failed to. Call from the only thread of the process.
StartedChild start_child(const ChildSpec& spec);

/// A started process, and the ends of its standard input and output, which do not block.
struct PipedChild {
  pid_t pid = -1;
  FileDescriptor in;
  FileDescriptor out;
};

/// As start_child(), for a process that gets SIGTERM when this thread ends. Errors: kUnavailable.
Result<PipedChild> start_piped_child(const std::vector<std::string>& command);

/// How a command ended, and what it wrote to standard output.
struct FinishedCommand {
  int wait_status = 0;
  std::string output;
};

/// Runs the command to its end. Ctrl-C ends this process alone, and the command with it.
/// `with_errors`: its standard error is read, too. Errors: kUnavailable.
Result<FinishedCommand> run_command(std::vector<std::string> command, bool with_errors = false);

/// Becomes the command in this process. Returns where it cannot be run, as a shell would say it.
StartFailure become(const std::vector<std::string>& command);

/// "signal 9 (Killed)".
std::string signal_text(int signal);

/// "was killed by signal 9 (Killed)" or "exited with status 3".
std::string describe_wait_status(int wait_status);

/// The exit status, or 128 + signal, as shells report it.
int exit_status_of(int wait_status);

/// Kills this process's children. A subreaper gets the children of those that end, so call it again
/// until none is left.
void kill_children();

/// Blocks the signals that the launcher reads from a descriptor, for a scope.
class SignalSource {
 public:
  SignalSource();
  ~SignalSource();
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// The next signal that has come, or nothing.
  std::optional<int> next();

 private:
  sigset_t before_{};
  FileDescriptor fd_;
};

/// The wait status of a process none of whose threads will run its program again. Nothing for
/// others, and where the status is 0 or not known.
std::optional<int> status_of_ending(pid_t pid);

/// Says which of a job's processes are frozen or gone. Threads: one.
class ProcessLiveness {
 public:
  static constexpr std::chrono::seconds kFreezeInterval{1};
  static constexpr std::chrono::milliseconds kSuspectInterval{2};
  static constexpr std::chrono::milliseconds kSuspectTime{300};

  /// Processes may be stopped for this long; 0: without end.
  void set_freeze_limit(std::chrono::seconds limit) noexcept { freeze_limit_ = limit; }
  /// The processes, each once, that have been stopped for longer than the limit. Looks at `running`
  /// if it is time.
  std::vector<pid_t> frozen(const std::vector<pid_t>& running, TimePoint time);

  /// Others have lost this process. The kernel frees its memory for 0.1 s and more if it was killed
  /// with PyTorch; only then does its parent get to know of its end. It is looked at for a while.
  void suspect(pid_t pid, TimePoint time) { suspects_[pid] = time + kSuspectTime; }
  /// Suspects that are ending, each once, with their wait statuses.
  std::vector<std::pair<pid_t, int>> gone(TimePoint time);

  /// When to look again.
  [[nodiscard]] TimePoint deadline(TimePoint time) const noexcept {
    const TimePoint freeze = freeze_limit_.count() == 0 ? kForever : next_look_;
    return suspects_.empty() ? freeze : std::min(freeze, time + Duration(kSuspectInterval));
  }

 private:
  std::chrono::seconds freeze_limit_{0};
  TimePoint next_look_{};
  std::map<pid_t, TimePoint> stopped_;   // since then; kForever: reported
  std::map<pid_t, TimePoint> suspects_;  // until then
};

}  // namespace ronde
