// Exits of a job's processes, as its launcher saw them. The agent of each host writes a memory
// file. Its ranks inherit that file and read it once an error is about another rank.
#pragma once

#include <string>
#include <string_view>

#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// The variable with the descriptor that a rank inherits.
inline constexpr const char* kExitLogVariable = "RONDE_EXIT_LOG_FD";

/// One process that has ended.
struct ProcessExit {
  int pid = 0;
  std::string host;
  std::string text;  ///< "was killed by signal 9 (Killed)".

  static void fields(auto& wire, auto& self) { wire(self.pid, self.host, self.text); }
};

/// The file that an agent writes. Threads: one.
class ExitLog {
 public:
  /// Errors: kUnavailable where the process has no descriptors left.
  Status open();
  /// The descriptor that ranks inherit: they can only read. -1 before open().
  [[nodiscard]] int reading() const noexcept { return reading_.get(); }
  /// Drops the exit where the file has no room.
  void add(const ProcessExit& ended);

 private:
  FileDescriptor writing_;
  FileDescriptor reading_;
};

/// The text of a process's exit in the log with this descriptor; empty where it has none, or is
/// another file.
std::string read_exit(int fd, int pid, std::string_view host);

/// The error with how its rank's process ended, if the launcher has logged that by now. Bindings
/// call it before users see the error. Threads: any.
Status with_exit(const Status& status);

}  // namespace ronde
