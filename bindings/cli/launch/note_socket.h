// The socket over which a worker of an elastic job and its agent exchange notes.
#pragma once

#include <deque>
#include <optional>
#include <string>

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

}  // namespace ronde
