// The launcher's signals as something that poll() can wait for.
#pragma once

#include <signal.h>

#include <optional>

#include "core/base/os/file_descriptor.h"

namespace ronde {

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
