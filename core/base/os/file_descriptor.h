// The one owner of file descriptors, helpers for them, and messages that carry them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <utility>

#include "core/base/status.h"

namespace ronde {

/// Owns one descriptor; -1 is none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

/// Both ends of a pipe; closed on exec.
struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};
/// Errors: kUnavailable.
Result<Pipe> make_pipe();

/// Makes a non-blocking event that poll() sees as readable after notify_event(). Not valid() where
/// the process has no descriptor left.
FileDescriptor make_event() noexcept;
/// Makes the event readable. Blocks: never. Keeps errno. Threads: any, also signal handlers.
void notify_event(int fd) noexcept;
/// Makes the event unreadable until the next notify_event().
void clear_event(int fd) noexcept;

/// Sets O_NONBLOCK. For descriptors that no other process shares.
void set_nonblocking(int fd) noexcept;

/// The result of one read.
enum class ReadState { kData, kNothing, kEnd };

/// Appends up to 64 KiB to `out`. Blocks only if the descriptor does.
ReadState read_some(int fd, std::string& out);

/// `what` and the text of errno.
Status errno_status(const std::string& what, Code code = Code::kUnavailable);

/// A message of a Unix socket, and the descriptor that came with it (SCM_RIGHTS), which is closed
/// on exec.
struct FileMessage {
  std::string bytes;
  FileDescriptor file;
};

/// Sends one message, with a descriptor unless `file` is -1. Blocks: never. As send().
ssize_t send_with_file(int socket, const std::string& bytes, int file) noexcept;

/// Receives one message of up to `most` bytes. The kernel drops all descriptors but the first.
/// Blocks only if the socket does. Empty where recvmsg() fails or the other end is closed.
FileMessage receive_with_file(int socket, std::size_t most);

}  // namespace ronde
