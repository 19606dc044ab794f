// The agreed work of one process set, from its agreement to its execution.
//
// Large bundles are cut into partitions, and ordered by priority. Those that were cut are paced:
// the coordinator lets a few run at a time. So urgent work agreed later can overtake the rest.
// The driving thread runs small bundles if no other is queued. The queue's own thread runs the
// rest.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/abort.h"
#include "core/base/mutex.h"
#include "core/engine/queues/driving_role.h"
#include "core/engine/queues/fusion.h"
#include "core/engine/queues/launch_order.h"
#include "core/engine/queues/nonfinite_policy.h"
#include "core/engine/queues/operation.h"
#include "core/engine/queues/run_order.h"
#include "core/engine/records/left_behind.h"
#include "core/engine/records/meter.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "core/ports/topology.h"
#include "core/protocol/member.h"

namespace ronde {

class LaunchCoordinator;

/// Names a process set; 0 is the set of all ranks.
using SetId = std::int32_t;
inline constexpr SetId kGlobalSet = 0;

/// One process set, and the parts of the engine that its queue uses, all of which outlive it.
struct SetQueueOptions {
  SetId id = kGlobalSet;
  MemberOptions member;
  std::size_t fusion_threshold_bytes = 0;
  std::size_t partition_bytes = 0;  ///< Larger bundles are cut; 0: never. The same on all ranks.
  std::size_t inline_bytes = 0;     ///< Larger bundles run in the queue's thread.
  std::unique_ptr<Executor> executor;
  std::shared_ptr<AbortToken> abort;    ///< Aborted also where the data plane fails.
  const Topology* topology = nullptr;   ///< May be null.
  const EventSwitch* events = nullptr;  ///< May be null.
  OperationRing* records = nullptr;
  Meter* meter = nullptr;
  DrivingRole* role = nullptr;               ///< Notified of each bundle that ended.
  LaunchOrder* launches = nullptr;           ///< Of this process.
  LaunchCoordinator* coordinator = nullptr;  ///< Gives device work its place among the launches.
  LeftBehind* left_behind = nullptr;
  std::string check_mean;  ///< A part of the names of sums that are compared; empty: none are.
  const NonfinitePolicy* nonfinite = nullptr;  ///< Null: values are not looked at.
};

/// Called with each operation that has finished, its status and time, in the executing thread.
using FinishOperation = std::function<void(const OperationPtr&, const Status&, TimePoint)>;

/// Runs the agreed bundles of one process set, in the same order on all ranks.
/// Threads: the driving thread, unless a member says otherwise.
class BundleQueue {
 public:
  /// `coordinates`: this rank makes the set's batches. `options` outlive it.
  BundleQueue(const SetQueueOptions& options, bool coordinates, FinishOperation finish);
  /// Runs what is queued (aborted work ends at once), then ends the thread. Blocks.
  ~BundleQueue();
  BundleQueue(const BundleQueue&) = delete;
  BundleQueue& operator=(const BundleQueue&) = delete;

  /// Takes over a bundle, in the agreed order.
  void add(QueuedBundle whole);
  /// The coordinator lets this many more paced bundles run. Call after the batch's add()s.
  void release(std::uint32_t bundles);
  /// The set is closed, so nothing is paced any more.
  void open();
  /// Coordinator: how many more paced bundles all ranks may run now. Counts them as released.
  [[nodiscard]] std::uint32_t pace();

  /// True if run() has anything to do.
  [[nodiscard]] bool has_work() const noexcept { return !released_.empty(); }
  /// Runs all released bundles in order. One runs in this thread if `alone` and it is small, or if
  /// it waits for no other rank, and no other is queued or runs. The queue's thread, which starts
  /// on first use, runs the rest. Blocks: for those that run here.
  void run(bool alone) RONDE_EXCLUDES(mutex_);
  /// True if the queue's thread has work. Threads: any.
  [[nodiscard]] bool executing() const RONDE_EXCLUDES(mutex_);

  /// Any set but the global one: its next device work has its place now.
  void place_launch() { turns_.place_next(); }
  /// Device work that has no place by now will have none.
  void end_launches() { turns_.close(); }

 private:
  void put(QueuedBundle bundle);
  void release_next();
  void hand_over(QueuedBundle bundle);
  void execute(QueuedBundle& bundle);
  static Status located(const Status& status, const QueuedBundle& bundle);
  [[nodiscard]] Status judged(Operation& operation) const;
  void thread_main() RONDE_EXCLUDES(mutex_);

  // Const after construction.
  const SetQueueOptions& options_;
  const bool coordinates_;
  const FinishOperation finish_;
  // Driving thread only.
  RunOrder<QueuedBundle> order_;        // agreed, and not released yet
  std::vector<QueuedBundle> released_;  // for run()
  QueueTurns turns_;
  std::uint64_t bundles_ = 0;         // so far; all ranks count alike
  std::uint64_t paced_released_ = 0;  // coordinator: so far
  std::thread thread_;
  // Any thread.
  std::atomic<std::uint64_t> paced_ended_{0};
  // Guarded.
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<QueuedBundle> queue_ RONDE_GUARDED_BY(mutex_);
  bool running_ RONDE_GUARDED_BY(mutex_) = false;
  bool stop_ RONDE_GUARDED_BY(mutex_) = false;
};

}  // namespace ronde
