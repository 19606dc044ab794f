// A rank tells the agent of its host that it joins a job. So the launcher can say when none did.
#pragma once

#include <string>

#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// The variable with the name of the agent's socket. It reaches the rank's own processes, too.
inline constexpr const char* kJoinVariable = "RONDE_JOIN_SOCKET";

/// The socket at which an agent is told of ranks that join. Threads: one.
class JoinSocket {
 public:
  /// Errors: kUnavailable where the process has no descriptors left.
  Status open();
  /// The name that the ranks' environment has; empty before open().
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// True once a rank has joined.
  bool joined();

 private:
  std::string name_;
  FileDescriptor socket_;
  bool joined_ = false;
};

/// Tells the agent that this process joins a job; does nothing without an agent. Never blocks.
void tell_of_join();

}  // namespace ronde
