#include "core/engine/driving/progress.h"

#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/protocol/stall_query.h"

namespace ronde {

bool Progress::step() {
  bool progressed = parts_.intake.run();
  progressed |= held_.deliver(parts_.router);  // before what has come since
  progressed |= parts_.channel.poll(parts_.router);
  progressed |= parts_.queues.come_due();
  if (!progressed) return false;
  flush();
  run_agreed();
  return true;
}

void Progress::flush() {
  std::vector<QueueWarning> warnings;
  parts_.queues.send_negotiations(parts_.outbox);
  parts_.queues.take_warnings(warnings);
  parts_.queues.update_deadline();
  for (const QueueWarning& warning : warnings) {
    log(warning.is_own ? LogLevel::kWarning : LogLevel::kInfo, "{}; {}", warning.text, kStallHint);
  }
  if (!warnings.empty() && on_stall_) on_stall_();
}

void Progress::run_agreed() {
  if (!collect_agreed()) return;
  parts_.queues.send_negotiations(parts_.outbox);  // the coordinator let paced bundles go
  // Peers must know of the whole agreement before this thread may be busy with it.
  const bool told = parts_.channel.kick();
  runs_ = true;
  parts_.queues.run_agreed(may_run_ && told);
  runs_ = false;
}

void Progress::look_for_failure() {
  if (runs_) parts_.channel.poll(held_);
}

bool Progress::collect_agreed() {
  bool any = false;
  do {
    any |= parts_.queues.collect_agreed();
  } while (parts_.launches.take_ordered());
  parts_.launches.end_if_closed();
  return any;
}

}  // namespace ronde
