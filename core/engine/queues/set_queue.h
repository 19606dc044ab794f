// One process set of this rank, from the negotiation of its operations to the queue of its agreed
// work. No queue waits for another one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/engine/queues/bundle_queue.h"
#include "core/engine/queues/operation.h"
#include "core/ports/event_sink.h"
#include "core/protocol/member.h"

namespace ronde {

/// A warning for people. Other ranks of the set have it, too.
struct QueueWarning {
  std::string text;
  bool is_own = false;  ///< This rank coordinates the set, so it logs the warning for all.
};

/// Brings the operations of one process set from submission to their end.
/// Threads: the driving thread, unless a member says otherwise.
class SetQueue {
 public:
  explicit SetQueue(SetQueueOptions options);

  /// Enters one operation of this rank.
  void submit(const OperationPtr& operation, TimePoint now);
  /// This rank as a member of the set. Frames, deadlines and notices go there directly.
  [[nodiscard]] Member& member() noexcept { return member_; }
  /// As Member::take_warnings, and counts them.
  void take_warnings(std::vector<QueueWarning>& out);
  /// Takes over the batches agreed since the last call; true if run_agreed() has work. The
  /// coordinator releases paced bundles here, so frames may have to be sent after it.
  bool collect_agreed();
  /// Runs or queues all collected bundles in order. `alone`: no other queue of this process has
  /// operations outstanding. Only then may a bundle run in this thread: driving threads that wait
  /// for each other in a cycle of sets would never end.
  void run_agreed(bool alone) { bundles_.run(alone); }

  /// Any other set: see BundleQueue.
  void place_launch() { bundles_.place_launch(); }
  void end_launches() { bundles_.end_launches(); }

  /// Fails every operation that is not agreed yet. Agreed work ends by the abort, which must come
  /// first: the order of bundles that were not released is not agreed.
  void fail_pending(const Status& reason);

  [[nodiscard]] SetId id() const noexcept { return options_.id; }
  [[nodiscard]] const std::vector<int>& members() const noexcept { return options_.member.members; }
  /// True if the queue's own thread has work. Threads: any.
  [[nodiscard]] bool executing() const { return bundles_.executing(); }
  /// True if a rank has left the set, so that nothing is agreed any more. Threads: any.
  [[nodiscard]] bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }
  /// Operations submitted and not finished. Threads: any.
  [[nodiscard]] int outstanding() const noexcept {
    return outstanding_.load(std::memory_order_acquire);
  }
  /// Declares that all ranks are about to remove the set, or not after all: once they leave it,
  /// operations that are not agreed fail with kAborted, instead of naming a rank that has left.
  /// Threads: any.
  void set_removed(bool removed) noexcept { removed_.store(removed, std::memory_order_release); }
  /// Counts an operation in before it is queued for the driving thread. Threads: any.
  void count_in() noexcept { outstanding_.fetch_add(1, std::memory_order_acq_rel); }
  /// Ends an operation of this queue, in any thread.
  void finish(const OperationPtr& operation, const Status& status);

 private:
  /// As finish(). Callers that wait are told by the caller: once for all that end together, as each
  /// wake-up costs more than a small operation.
  void end(const OperationPtr& operation, const Status& status, TimePoint when);
  [[nodiscard]] InlinePayload payload_of(const Submission& submission) const;
  void break_job(const Status& reason);
  void collect_batch(Batch& batch);
  void finish_without_work(const Batch& batch, std::vector<OperationPtr>& operations);
  [[nodiscard]] bool pace();
  [[nodiscard]] Status outcome(const Status& status, const Request& request) const;
  [[nodiscard]] EventSink* sink() const noexcept {
    return options_.events == nullptr ? nullptr : options_.events->get();
  }
  [[nodiscard]] Status located(const Status& status) const;
  void end_negotiation_events(std::span<const OperationPtr> operations, TimePoint when) const;
  std::vector<OperationPtr> take_operations(const Batch& batch);

  const SetQueueOptions options_;
  // Driving thread only.
  Member member_;
  std::unordered_map<std::uint64_t, OperationPtr> unagreed_;
  std::vector<Batch> batches_;  // reused
  AgreementStats metered_;
  // Any thread.
  std::atomic<int> outstanding_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> removed_{false};
  BundleQueue bundles_;  // last: ends before what it uses
};

using SetQueuePtr = std::shared_ptr<SetQueue>;

}  // namespace ronde
