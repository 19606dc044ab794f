// One order of launches for all process sets of a job; launch_order.h gives the reason.
//
// The order is that of the global set's batches. The coordinator of another set asks rank 0 to
// enter that set's next device work there.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/engine/frames/frame.h"
#include "core/engine/queues/set_queue.h"

namespace ronde {

class Queues;

/// Gives the device work of each process set its place in the job's order of launches.
/// Threads: the driving thread.
class LaunchCoordinator {
 public:
  /// `queues` and `sender` outlive the coordinator.
  LaunchCoordinator(Queues& queues, FrameSender& sender) : queues_(queues), sender_(sender) {}

  /// Asks rank 0 for the place of the next device work of a set that this rank coordinates.
  void ask(SetId id);
  /// Rank 0: the coordinator of a set asks for a place.
  void order(int coordinator, SetId id);
  /// The global set's next place is that of `set`, as order() named it.
  void place(std::uint64_t set);

  /// A queue was started. Other ranks may have asked for places before this rank had the global
  /// set.
  void on_started(SetQueue& queue);
  /// True if rank 0 entered places since the last call: the global set has agreed work then.
  [[nodiscard]] bool take_ordered() noexcept { return std::exchange(ordered_, false); }
  /// Gives no more places once a rank has left the global set.
  void end_if_closed();

 private:
  void order_early();

  Queues& queues_;
  FrameSender& sender_;
  std::vector<std::uint64_t> early_;  // rank 0: asked for before it has the global set
  bool ordered_ = false;
  bool ended_ = false;
};

}  // namespace ronde
