// The agent's sockets for its ranks: for notes of an elastic job's workers, and for processes that
// get descriptors again which a program between has closed.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <string>

#include "bindings/cli/launch/event_loop.h"
#include "bindings/descriptors/passed.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// The agent's end of a worker's notes. Each note is one message. Threads: one.
class NoteSocket {
 public:
  /// Makes the socket and returns the worker's end, which the worker inherits.
  /// Errors: kUnavailable where there are no descriptors left.
  Result<FileDescriptor> open();

  /// Sends the note, at once where the worker's queue has room. Blocks: never.
  /// Errors: kInvalidArgument where the system does not take a message of this size.
  Status send(std::string note);
  /// Sends what waits; call it when poll() says that fd() is writable.
  Status write();
  /// The next note that has come, with the descriptor that the worker sent along, or nothing.
  /// Closes the socket when the worker has closed its end.
  std::optional<FileMessage> next();

  void close() noexcept {
    socket_.reset();
    unsent_.clear();
  }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  [[nodiscard]] bool wants_write() const noexcept { return !unsent_.empty(); }

 private:
  FileDescriptor socket_;
  std::deque<std::string> unsent_;
};

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
