// Leaving an elastic job on a signal: this worker finishes its step, then the others go on.
#pragma once

#include <memory>

#include "bindings/elastic/member.h"
#include "core/base/status.h"

namespace ronde::elastic {

/// True if this worker is to leave at its next commit. Threads: any.
bool asked_to_leave() noexcept;

/// While it lives, the signal that RONDE_LEAVE_SIGNAL names (TERM, the default; USR1; off) asks
/// this worker to leave, and the launcher is told at once. Then the handler of before is back.
/// Threads: one.
class LeaveSignal {
 public:
  /// Does nothing without a member. Errors: kInvalidArgument for other values of the variable.
  static Result<std::unique_ptr<LeaveSignal>> watch(const Member* member);
  ~LeaveSignal();
  LeaveSignal(const LeaveSignal&) = delete;
  LeaveSignal& operator=(const LeaveSignal&) = delete;

 private:
  LeaveSignal(const Member* member, int number);

  int number_ = 0;  // 0: none is watched
};

}  // namespace ronde::elastic
