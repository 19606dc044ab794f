// The queues of this rank, one for each process set.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "core/engine/peers/outbox.h"
#include "core/engine/queues/set_queue.h"

namespace ronde {

/// Keeps the queue of each process set of this rank.
///
/// A queue is found as soon as its set is added. The driving thread works on it from start() to
/// stop(). Threads: the driving thread, unless a member says otherwise.
class Queues {
 public:
  /// Makes `queue` known. Threads: any.
  void add(const SetQueuePtr& queue) RONDE_EXCLUDES(mutex_);
  /// Forgets the queue of a set and returns it, or null. Threads: any.
  SetQueuePtr remove(SetId id) RONDE_EXCLUDES(mutex_);
  /// The queue of a set, or null. Threads: any.
  [[nodiscard]] SetQueuePtr find(SetId id) const RONDE_EXCLUDES(mutex_);
  /// All queues. Threads: any.
  [[nodiscard]] std::vector<SetQueuePtr> all() const RONDE_EXCLUDES(mutex_);
  /// Whether no operation of any set is outstanding. Threads: any.
  [[nodiscard]] bool idle() const RONDE_EXCLUDES(mutex_);
  /// Destroys all queues, which ends their threads. Blocks. Threads: any, once no thread drives.
  void clear() RONDE_EXCLUDES(mutex_);

  /// Starts to work on a queue.
  void start(const SetQueuePtr& queue) { driven_.push_back(queue); }
  /// Stops to work on a queue.
  void stop(const SetQueuePtr& queue) { std::erase(driven_, queue); }
  /// The queues that were started, in that order.
  [[nodiscard]] const std::vector<SetQueuePtr>& driven() const noexcept { return driven_; }
  /// The started queue of a set, or null.
  [[nodiscard]] SetQueue* driven(SetId id) const;

  /// Lets deadlines of the queues come due; false if none has passed.
  bool come_due();
  /// Looks up the next deadline of all queues.
  void update_deadline();
  /// The next deadline, as of the last update.
  [[nodiscard]] TimePoint next_deadline() const noexcept { return next_deadline_; }

  /// Sends the negotiation frames of all queues.
  void send_negotiations(Outbox& outbox);
  /// Appends the warnings of all queues.
  void take_warnings(std::vector<QueueWarning>& out);
  /// As SetQueue::collect_agreed, of all queues.
  [[nodiscard]] bool collect_agreed();
  /// Runs what was collected, in this thread where `may_run_here`; see SetQueue::run_agreed.
  void run_agreed(bool may_run_here);
  /// Whether a thread of any queue is at work. It needs the core more than a spinning caller does.
  [[nodiscard]] bool executing() const;
  /// Fails all operations that are not agreed yet.
  void fail_pending(const Status& reason);
  /// The pending operations of all sets, for dumps.
  [[nodiscard]] std::vector<std::string> describe_pending() const;

 private:
  [[nodiscard]] bool alone(const SetQueue& queue) const;

  // Driving thread only.
  std::vector<SetQueuePtr> driven_;
  TimePoint next_deadline_ = kForever;
  // Guarded.
  mutable Mutex mutex_;
  std::unordered_map<SetId, SetQueuePtr> known_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
