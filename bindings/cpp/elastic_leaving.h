// Leaving an elastic job on a signal: this worker finishes its step, then the others go on.
#pragma once

#include "bindings/elastic/member.h"

namespace ronde::elastic {

/// True if this worker is to leave at its next commit. Threads: any.
bool asked_to_leave() noexcept;

/// While it lives, the signal that RONDE_LEAVE_SIGNAL names (TERM, the default; USR1; off) asks
/// this worker to leave, and the launcher is told at once. Then the handler of before is back.
/// Threads: one.
class LeaveSignal {
 public:
  /// Does nothing without a member. Throws InvalidArgument for other values of the variable.
  explicit LeaveSignal(const Member* member);
  ~LeaveSignal();
  LeaveSignal(const LeaveSignal&) = delete;
  LeaveSignal& operator=(const LeaveSignal&) = delete;

 private:
  int number_ = 0;  // 0: none is watched
};

}  // namespace ronde::elastic
