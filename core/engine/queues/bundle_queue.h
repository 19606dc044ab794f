// The agreed work of one process set, from its agreement to its execution.
//
// Large bundles are cut into partitions, and ordered by priority. Those that were cut are paced:
// the coordinator lets a few run at a time. So urgent work agreed later can overtake the rest.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/engine/queues/fusion.h"
#include "core/engine/queues/launch_order.h"
#include "core/engine/queues/queue_worker.h"
#include "core/engine/queues/run_order.h"

namespace ronde {

/// Names a process set; 0 is the set of all ranks.
using SetId = std::int32_t;
inline constexpr SetId kGlobalSet = 0;

struct BundleQueueOptions {
  SetId id = kGlobalSet;
  std::size_t members = 1;
  bool coordinates = false;         ///< This rank makes the set's batches.
  std::size_t partition_bytes = 0;  ///< Larger bundles are cut; 0: never. The same on all ranks.
  std::size_t inline_bytes = 0;     ///< Larger bundles run in the queue's thread.
  LaunchOrder* launches = nullptr;  ///< Of this process. Outlives the queue.
  /// Called when device work needs a place: see SetQueueOptions.
  std::function<void()> on_device_work;
  QueueWorkerOptions worker;  ///< All but `paced_ended`.
};

/// Runs the agreed bundles of one process set, in the same order on all ranks.
/// Threads: the driving thread, unless a member says otherwise.
class BundleQueue {
 public:
  explicit BundleQueue(BundleQueueOptions options);

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
  /// Runs or queues all released bundles, in order. A bundle runs in this thread only where `alone`
  /// and it is small. Blocks: for those that run here.
  void run(bool alone);
  /// True if the queue's thread has work. Threads: any.
  [[nodiscard]] bool executing() const { return worker_.busy(); }

  /// Any set but the global one: its next device work has its place now.
  void place_launch() { turns_.place_next(); }
  /// Device work that has no place by now will have none.
  void end_launches() { turns_.close(); }

 private:
  void put(QueuedBundle bundle);
  void release_next();
  void hand_over(QueuedBundle bundle);
  QueueWorkerOptions worker_options(QueueWorkerOptions options);

  // Const after construction.
  BundleQueueOptions options_;
  // Driving thread only.
  RunOrder<QueuedBundle> order_;        // agreed, and not released yet
  std::vector<QueuedBundle> released_;  // for run()
  QueueTurns turns_;
  std::uint64_t bundles_ = 0;         // so far; all ranks count alike
  std::uint64_t paced_released_ = 0;  // coordinator: so far
  // Any thread.
  std::atomic<std::uint64_t> paced_ended_{0};
  QueueWorker worker_;  // last: ends before what it uses
};

}  // namespace ronde
