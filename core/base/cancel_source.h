// A request from outside that ends a wait before its deadline.
#pragma once

#include <functional>

#include "core/base/status.h"

namespace ronde {

/// Tells waits in system calls that they are to end. Without a check they run to their deadline.
/// Threads: those of `check`.
struct CancelSource {
  int fd = -1;  ///< A wait that sleeps is woken when it becomes readable; -1: none.
  /// Reads what made `fd` readable. An error ends the wait, and is what the wait returns. Called in
  /// the waiting thread, again and again. Blocks: never.
  std::function<Status()> check;

  [[nodiscard]] Status status() const { return check ? check() : Status(); }
};

}  // namespace ronde
