#include "core/engine/driving/progress.h"

#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/protocol/stall_facts.h"

namespace ronde {

bool Progress::step() {
  bool progressed = tasks_.run();
  progressed |= held_.deliver(router_);  // before what has come since
  progressed |= channel_.poll(router_);
  progressed |= queues_.come_due();
  if (membership_.abort().aborted() && (progressed || !is_broken_)) {
    membership_.end_all();  // also what has come since the job broke
    is_broken_ = true;
    progressed = true;
  }
  if (!progressed) return false;
  flush();
  run_agreed();
  return true;
}

void Progress::flush() {
  std::vector<QueueWarning> warnings;
  queues_.send_negotiations();
  queues_.take_warnings(warnings);
  queues_.update_deadline();
  for (const QueueWarning& warning : warnings) {
    log(warning.is_own ? LogLevel::kWarning : LogLevel::kInfo, "{}; {}", warning.text, kStallHint);
  }
  if (!warnings.empty() && on_stall_) on_stall_();
}

void Progress::run_agreed() {
  if (!queues_.collect_agreed()) return;
  queues_.send_negotiations();  // the coordinator let paced bundles go
  // Peers must know of the whole agreement before this thread may be busy with it.
  const bool told = channel_.kick();
  runs_ = true;
  queues_.run_agreed(may_run_ && told);
  runs_ = false;
}

void Progress::look_for_failure() {
  if (runs_) channel_.poll(held_);
}

}  // namespace ronde
