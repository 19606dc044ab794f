// A file descriptor that is closed with its owner, and small helpers for descriptors.
#pragma once

#include <string>
#include <utility>

#include "core/base/status.h"

namespace ronde {

/// Owns one descriptor; -1 is none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool open() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

/// Both ends of a pipe; closed on exec.
struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
Result<Pipe> make_pipe();

/// Sets O_NONBLOCK. For descriptors that no other process shares.
void set_nonblocking(int fd) noexcept;

/// What one read gave.
enum class ReadState { kData, kNothing, kEnd };

/// Appends up to 64 KiB to `out`. Blocks only where the descriptor does.
ReadState read_some(int fd, std::string& out);

/// kUnavailable with `what` and the text of errno.
Status errno_status(const std::string& what);

}  // namespace ronde
