// Processes of the launcher: children that die with their parent, signals as events.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/launch/messages.h"
#include "bindings/descriptors/passed.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// A process to start, with its descriptors.
struct ChildSpec {
  std::vector<std::string> command;           ///< Searched in PATH of this process.
  EnvironmentList environment;                ///< Replaces the same names of this process's.
  std::vector<PassedDescriptor> descriptors;  ///< It inherits them, and their variables.
  std::optional<cpu_set_t> cpus;              ///< The cores on which it may run.
  int death_signal = 0;                       ///< Sent by the kernel when this thread ends.
  int input = -1;                             ///< Standard input, or -1 for /dev/null.
  int output = -1;                            ///< Standard output, or -1 to share this process's.
  int error = -1;                             ///< Standard error, likewise.
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

/// "signal 9 (Killed)".
std::string signal_text(int signal);

/// "was killed by signal 9 (Killed)" or "exited with status 3".
std::string describe_wait_status(int wait_status);

/// The exit status, or 128 + signal, as shells report it.
int exit_status_of(int wait_status);

/// True if the later of two ranks that failed within moments is the likelier cause. A killed rank
/// is likelier than one that exits, and a status above 1 likelier than 1, which any exception
/// gives.
bool is_likelier_cause(int wait_status, int first);

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

}  // namespace ronde
