// How the processes of a job ended, as its launcher saw it. The agent of each host keeps a memory
// file of them; its ranks inherit that and read it once an error is about another rank.
#pragma once

#include <string>
#include <string_view>

#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// The variable with the descriptor that a rank inherits.
inline constexpr const char* kFatesVariable = "RONDE_FATES_FD";

/// One process that has ended.
struct Fate {
  int pid = 0;
  std::string host;
  std::string text;  ///< "was killed by signal 9 (Killed)".

  static void fields(auto& wire, auto& self) { wire(self.pid, self.host, self.text); }
};

/// The agent's end. Threads: one.
class FateFile {
 public:
  /// Errors: kUnavailable where the process has no descriptors left.
  Status open();
  /// For ranks to inherit: they can only read; -1 unless open() was well.
  [[nodiscard]] int reading() const noexcept { return reading_.get(); }
  /// Where the file has no room the ranks do without.
  void add(const Fate& fate);

 private:
  FileDescriptor writing_;
  FileDescriptor reading_;
};

/// How this process ended, by the file with this descriptor; empty where that says nothing, or is
/// another file.
std::string read_fate(int fd, int pid, std::string_view host);

/// The same error; where it is about a rank whose end this process's launcher has seen by now, with
/// how that ended. For the edges, where an error becomes a user's. Threads: any.
Status with_fate(const Status& status);

}  // namespace ronde
