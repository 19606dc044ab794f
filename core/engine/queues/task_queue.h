// Tasks for the driving thread from any thread: operations to submit, and calls to make.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/abort.h"
#include "core/engine/queues/driving_role.h"
#include "core/engine/queues/operation.h"
#include "core/engine/queues/set_queue.h"
#include "core/engine/records/meter.h"
#include "core/engine/records/operation_ring.h"

namespace ronde {

/// Hands tasks of any thread to the driving thread, in the order given.
/// Threads: any, unless a member says otherwise.
class TaskQueue {
 public:
  /// All outlive the queue.
  TaskQueue(DrivingRole& role, AbortToken& abort, OperationRing& records, Meter& meter) noexcept
      : role_(role), abort_(abort), records_(records), meter_(meter) {}

  /// Makes an operation from `submission` and records it as submitted; its queue gets it with the
  /// next run(). `caller_waits`: see Submission::caller_waits. Blocks: never.
  OperationPtr submit(const SetQueuePtr& queue, Submission&& submission, bool caller_waits);
  /// Makes an operation that is no collective, and records it as submitted.
  OperationPtr make_message(int kind, std::size_t bytes);
  /// Ends such an operation; notify_callers() must follow. Threads: the driving thread.
  void finish_message(Operation& operation, const Status& status);
  /// As DrivingRole::notify_callers().
  void notify_callers() { role_.notify_callers(); }
  /// Has the driving thread make a call. Blocks: never.
  void post(std::function<void()> call);

  /// Runs all tasks that wait; false where there are none. Once the job is broken, operations fail.
  /// Threads: the driving thread.
  bool run();
  /// The job's; aborted when the job breaks.
  [[nodiscard]] AbortToken& abort() const noexcept { return abort_; }
  /// True if no task waits. The answer may be late.
  [[nodiscard]] bool empty() const noexcept { return role_.tasks() == 0; }

 private:
  /// An operation for a queue, or a call.
  struct Task {
    SetQueuePtr queue;
    OperationPtr operation;
    std::function<void()> call;
  };

  void record(Operation& operation, const OperationFacts& facts);
  void put(Task&& task, bool caller_waits);

  DrivingRole& role_;
  AbortToken& abort_;
  OperationRing& records_;
  Meter& meter_;
  std::atomic<std::uint64_t> next_ticket_{1};
  std::vector<Task> waiting_ RONDE_GUARDED_BY(role_.mutex());
  std::vector<Task> taken_;  // driving thread only; reused
};

}  // namespace ronde
