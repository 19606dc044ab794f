// The end of a rank's part in the job: this rank or others leave, die or fail.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/abort.h"
#include "core/base/mutex.h"
#include "core/engine/frames/frame.h"
#include "core/engine/peers/messages.h"
#include "core/engine/queues/queues.h"
#include "core/engine/queues/task_queue.h"

namespace ronde {

/// Ends what depends on a rank that leaves, dies or fails.
/// Threads: any, unless a member says otherwise.
class Membership {
 public:
  /// All outlive it.
  Membership(TaskQueue& tasks, FrameSender& sender, Queues& queues, Messages& messages)
      : tasks_(tasks), sender_(sender), queues_(queues), messages_(messages) {}

  /// Ok, or why the job is broken.
  [[nodiscard]] Status job_status() const { return tasks_.abort().status(); }
  /// Aborted once it is: all waits end, and all operations with the next step.
  [[nodiscard]] AbortToken& abort() const noexcept { return tasks_.abort(); }
  /// The job is broken: ends all operations. Tells other ranks that do not know; each tells more.
  /// Threads: the driving thread.
  void end_all() RONDE_EXCLUDES(mutex_);
  /// Another rank says that the job is broken. Errors: kInvalidArgument where the payload is
  /// malformed. Threads: the driving thread.
  Status on_failure_frame(int from, std::span<const std::byte> payload);
  /// Another rank has left on purpose. Threads: the driving thread.
  void on_left(int rank, const Status& reason) RONDE_EXCLUDES(mutex_);

  /// Starts to leave the sets of `queues`; see Engine::leave. Becomes true once the queues know.
  std::shared_ptr<const std::atomic<bool>> leave(std::vector<SetQueuePtr> queues, std::string why);

  /// Why no answer can come from a rank: the job's failure, or the reason why it has left. Ok where
  /// it takes part.
  [[nodiscard]] Status failure_of(int rank) const RONDE_EXCLUDES(mutex_);

 private:
  void tell_failure(const Status& reason) RONDE_EXCLUDES(mutex_);
  [[nodiscard]] std::vector<int> recipients() const RONDE_EXCLUDES(mutex_);

  // Const after construction.
  TaskQueue& tasks_;
  FrameSender& sender_;
  Queues& queues_;
  Messages& messages_;
  // Driving thread only.
  std::optional<std::set<int>> knowing_;  // of the failure, once there is one
  // Guarded. Predicates of waits take this mutex.
  mutable Mutex mutex_;
  std::map<int, Status> left_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
