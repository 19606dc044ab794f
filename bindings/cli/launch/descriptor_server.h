// The agent's socket at which processes of its ranks get descriptors again that a program between
// has closed.
#pragma once

#include <sys/types.h>

#include <functional>
#include <list>
#include <string>

#include "bindings/cli/launch/poll_set.h"
#include "bindings/descriptors/passed.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// An abstract Unix socket with a random name. It answers processes of this user alone. Threads:
/// one.
class DescriptorServer {
 public:
  /// Finds the descriptor of a process's request, and keeps it. Errors: the answer.
  using Find = std::function<Result<int>(const PassedRequest& request, pid_t pid)>;

  /// Errors: kUnavailable where the process has no descriptors left.
  Status open();
  /// The name of the socket; empty before open().
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Serves processes in this turn of the event loop. `find` outlives the turn.
  void watch(PollSet& set, const Find& find);

 private:
  void accept();
  static void answer(FileDescriptor& client, const Find& find);

  std::string name_;
  FileDescriptor socket_;
  std::list<FileDescriptor> clients_;  ///< They have connected, and have not asked yet.
};

}  // namespace ronde
