// The threads that run agreed bundles of one queue. The driving thread runs small ones if no other
// is queued. The queue's own thread runs the rest.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/abort.h"
#include "core/base/mutex.h"
#include "core/engine/queues/driving_role.h"
#include "core/engine/queues/fusion.h"
#include "core/engine/queues/operation.h"
#include "core/ports/executor.h"

namespace ronde {

/// Called with each operation that has finished, its status and time, in the executing thread.
using FinishOperation = std::function<void(const OperationPtr&, const Status&, TimePoint)>;

struct QueueWorkerOptions {
  std::unique_ptr<Executor> executor;
  std::shared_ptr<AbortToken> abort;
  OperationRing* records = nullptr;  ///< Outlives it.
  Meter* meter = nullptr;            ///< Outlives it; may be null.
  DrivingRole* role = nullptr;       ///< Notified of each bundle that ended. Outlives it.
  FinishOperation finish;
  /// Called after each paced bundle, in the executing thread. May be empty.
  std::function<void()> paced_ended = {};
};

/// Executes the bundles of one queue in order. Threads: run_or_queue from the driving thread only.
class QueueWorker {
 public:
  explicit QueueWorker(QueueWorkerOptions options);
  /// Runs what is queued (aborted work ends at once), then ends the thread. Blocks.
  ~QueueWorker();
  QueueWorker(const QueueWorker&) = delete;
  QueueWorker& operator=(const QueueWorker&) = delete;

  /// Executes the bundle now if `may_run_here`, or if it waits for no other rank, and no other is
  /// queued or runs. Otherwise hands it to the queue's thread, which starts on first use. Blocks:
  /// while the bundle runs here.
  void run_or_queue(QueuedBundle bundle, bool may_run_here) RONDE_EXCLUDES(mutex_);

  /// True if anything is queued or running in the queue's thread. Threads: any.
  [[nodiscard]] bool busy() const RONDE_EXCLUDES(mutex_);
  /// True if bundles end without being executed. Threads: any.
  [[nodiscard]] bool aborted() const noexcept { return options_.abort->aborted(); }

 private:
  void execute(QueuedBundle& bundle);
  [[nodiscard]] TimePoint note_started(const QueuedBundle& bundle);
  void thread_main() RONDE_EXCLUDES(mutex_);

  // Const after construction.
  const QueueWorkerOptions options_;
  // Driving thread only.
  std::thread thread_;
  // Guarded.
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<QueuedBundle> queue_ RONDE_GUARDED_BY(mutex_);
  bool running_ RONDE_GUARDED_BY(mutex_) = false;
  bool stop_ RONDE_GUARDED_BY(mutex_) = false;
};

}  // namespace ronde
