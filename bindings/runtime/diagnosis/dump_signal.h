// The signals that ask a process for dumps of all its runtimes, and for their timelines.
#pragma once

#include "bindings/runtime/diagnosis/service_thread.h"
#include "core/base/settings/config.h"

namespace ronde::diagnosis {

/// The signal that asks for dumps; 0 for none. "auto": SIGUSR2 under `ronde run`, which alone
/// passes a descriptor for the secret.
int dump_signal_number(const Config& config);

/// The signal that switches the timeline on and off; 0 for none.
int timeline_signal_number(const Config& config);

/// Lets a signal wake a service thread while it lives. The handler is installed only where the
/// signal has none, and removed with the last of these, unless the user has installed another
/// meanwhile.
/// Threads: any.
class DumpSignal {
 public:
  /// `number`: 0 for none.
  DumpSignal(int number, Waker& waker, Reason reason = Reason::kSignal);
  ~DumpSignal();
  DumpSignal(const DumpSignal&) = delete;
  DumpSignal& operator=(const DumpSignal&) = delete;

 private:
  const int number_;
  int place_ = -1;
};

}  // namespace ronde::diagnosis
