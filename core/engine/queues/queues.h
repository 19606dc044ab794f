// The queues of this rank, one for each process set.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/engine/frames/frame.h"
#include "core/engine/queues/launch_coordinator.h"
#include "core/engine/queues/set_queue.h"

namespace ronde {

/// Keeps the queue of each process set of this rank.
///
/// A queue is found as soon as its set is added. The driving thread works on it from start() to
/// stop(). Threads: the driving thread, unless a member says otherwise.
class Queues {
 public:
  /// `sender` outlives it.
  explicit Queues(FrameSender& sender) : sender_(sender), launches_(*this, sender) {}

  /// Makes `queue` known. Threads: any.
  void add(const SetQueuePtr& queue) RONDE_EXCLUDES(mutex_);
  /// Forgets the queue of a set and returns it, or null. Threads: any.
  SetQueuePtr remove(SetId id) RONDE_EXCLUDES(mutex_);
  /// The queue of a set, or null. Threads: any.
  [[nodiscard]] SetQueuePtr find(SetId id) const RONDE_EXCLUDES(mutex_);
  /// All queues. Threads: any.
  [[nodiscard]] std::vector<SetQueuePtr> all() const RONDE_EXCLUDES(mutex_);
  /// True if no operation of any set is outstanding. Threads: any.
  [[nodiscard]] bool idle() const RONDE_EXCLUDES(mutex_);
  /// Destroys all queues, which ends their threads. Blocks. Threads: any, once no thread drives.
  void clear() RONDE_EXCLUDES(mutex_);

  /// Starts to work on a queue, and gives it the frames that came before. Errors: as on_frame().
  Status start(const SetQueuePtr& queue);
  /// Stops to work on a queue. Later frames for it are dropped: their senders did not know yet.
  void stop(const SetQueuePtr& queue);
  /// The queues that were started, in that order.
  [[nodiscard]] const std::vector<SetQueuePtr>& driven() const noexcept { return driven_; }
  /// The started queue of a set, or null.
  [[nodiscard]] SetQueue* driven(SetId id) const;

  /// A frame of another rank's negotiation of a set. It is kept for a set that is not started yet.
  /// Errors: as Member::on_frame.
  Status on_frame(int from, SetId id, std::span<const std::byte> payload);
  /// Gives device work its place.
  [[nodiscard]] LaunchCoordinator& launches() noexcept { return launches_; }

  /// Handles the queues' deadlines that have passed; false if there are none.
  bool come_due();
  /// Looks up the next deadline of all queues.
  void update_deadline();
  /// The next deadline, as of the last update.
  [[nodiscard]] TimePoint next_deadline() const noexcept { return next_deadline_; }

  /// Sends the negotiation frames of all queues.
  void send_negotiations();
  /// Appends the warnings of all queues.
  void take_warnings(std::vector<QueueWarning>& out);
  /// As SetQueue::collect_agreed, of all queues. Agreed work gives other sets' device work places.
  [[nodiscard]] bool collect_agreed();
  /// Runs what was collected, in this thread where `may_run_here`; see SetQueue::run_agreed.
  void run_agreed(bool may_run_here);
  /// True if a thread of any queue is at work. It needs the core more than a spinning caller does.
  [[nodiscard]] bool executing() const;
  /// Fails all operations that are not agreed yet.
  void fail_pending(const Status& reason);
  /// The pending operations of all sets, for dumps.
  [[nodiscard]] std::vector<std::string> describe_pending() const;

 private:
  [[nodiscard]] bool alone(const SetQueue& queue) const;

  FrameSender& sender_;
  // Driving thread only.
  LaunchCoordinator launches_;
  std::map<SetId, std::vector<std::pair<int, std::vector<std::byte>>>> early_;  // before start()
  std::set<SetId> stopped_;
  std::vector<SetQueuePtr> driven_;
  TimePoint next_deadline_ = kForever;
  // Guarded.
  mutable Mutex mutex_;
  std::unordered_map<SetId, SetQueuePtr> known_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
