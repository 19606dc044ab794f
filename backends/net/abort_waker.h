// Makes an abort end a wait in poll().
#pragma once

#include "core/base/abort.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::net {

/// A descriptor that becomes readable, for good, when one of the tokens it listens to aborts.
/// Threads: one; abort() of the tokens from any.
class AbortWaker {
 public:
  /// Errors: kResourceExhausted.
  static Result<AbortWaker> create();

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// Listens to one token as long as it lives. The waker and the token outlive it.
  class Listening {
   public:
    Listening(const AbortWaker& waker, const AbortToken& token);
    ~Listening() { token_.unlisten(id_); }
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;

   private:
    AbortToken& token_;
    int id_;
  };

 private:
  explicit AbortWaker(FileDescriptor fd) noexcept : fd_(std::move(fd)) {}

  FileDescriptor fd_;
};

}  // namespace ronde::net
