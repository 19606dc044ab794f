#include "core/engine/queues/bundle_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/thread_name.h"
#include "core/engine/queues/launch_coordinator.h"
#include "core/protocol/request.h"

namespace ronde {
namespace {

constexpr std::uint64_t kPacedInFlight = 2;  // one runs, and the next is there when it ends

}  // namespace

BundleQueue::BundleQueue(const SetQueueOptions& options, bool coordinates, FinishOperation finish)
    : options_(options),
      coordinates_(coordinates),
      finish_(std::move(finish)),
      turns_(*options.launches) {}

BundleQueue::~BundleQueue() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void BundleQueue::add(QueuedBundle whole) {
  if (!whole.result.empty()) return put(std::move(whole));
  const std::size_t limit = options_.partition_bytes;
  const std::size_t bytes = agreed_bytes(whole);
  // Nothing that follows could overtake a bundle that is not worth a second partition.
  whole.paced = limit > 0 && bytes > limit / 2;
  if (limit == 0 || bytes <= limit) return put(std::move(whole));
  for (QueuedBundle& part : cut_bundle(std::move(whole), limit)) put(std::move(part));
}

void BundleQueue::put(QueuedBundle bundle) {
  bundle.id = (static_cast<std::uint64_t>(options_.id) << kBundleBits) | ++bundles_;
  if (!bundle.paced && order_.empty()) return hand_over(std::move(bundle));
  const std::int32_t priority = bundle.priority;
  const bool paced = bundle.paced;
  order_.add(std::move(bundle), priority, paced);
}

void BundleQueue::release(std::uint32_t bundles) {
  order_.release(bundles);
  release_next();
}

void BundleQueue::open() {
  order_.open();
  release_next();
}

void BundleQueue::release_next() {
  while (auto bundle = order_.next()) hand_over(std::move(*bundle));
}

std::uint32_t BundleQueue::pace() {
  if (order_.paced() == 0) return 0;
  const std::uint64_t in_flight = paced_released_ - paced_ended_.load(std::memory_order_acquire);
  if (in_flight >= kPacedInFlight) return 0;
  const auto more = std::min<std::uint64_t>(kPacedInFlight - in_flight, order_.paced());
  paced_released_ += more;
  return static_cast<std::uint32_t>(more);
}

/// Gives device work its turn, whose place the job's order of launches decides.
void BundleQueue::hand_over(QueuedBundle bundle) {
  if (bundle.device.kind != DeviceKind::kCpu && options_.member.members.size() > 1) {
    if (options_.id == kGlobalSet) {
      turns_.place_next();
    } else if (coordinates_ && !options_.abort->aborted()) {
      options_.coordinator->ask(options_.id);
    }
    bundle.turn = turns_.take();
  }
  released_.push_back(std::move(bundle));
}

void BundleQueue::run(bool alone) {
  for (QueuedBundle& bundle : released_) {
    // Device work may have to agree with other ranks first. The driving thread must not wait for
    // that.
    const bool runs_here = alone && bundle.device.kind == DeviceKind::kCpu &&
                           options_.executor->polls() &&
                           input_bytes(bundle) <= options_.inline_bytes;
    // Ranks may have to agree on a result that is not finite, and exchange inputs to compare.
    const bool compares = std::ranges::any_of(bundle.tensors, &BundleTensor::checks_mean);
    const bool waits_for_none =
        !bundle.result.empty() && options_.nonfinite == nullptr && !compares;
    if ((waits_for_none || runs_here) && !executing()) {
      execute(bundle);  // only this thread queues: it drives
      continue;
    }
    MutexLock lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { thread_main(); });
    queue_.push_back(std::move(bundle));
    changed_.notify_all();
  }
  released_.clear();
}

bool BundleQueue::executing() const {
  MutexLock lock(mutex_);
  return running_ || !queue_.empty();
}

void BundleQueue::execute(QueuedBundle& bundle) {
  const TimePoint started = now();
  for (const OperationPtr& operation : bundle.operations) {
    if (operation) options_.records->reach(operation->record(), OperationStage::kStarted, started);
  }
  const AbortToken& abort = *options_.abort;
  const bool broken = abort.aborted();
  Status status = broken ? abort.status() : options_.executor->execute(bundle, abort);
  if (status.code() == Code::kCorrupted && !abort.aborted()) status = located(status, bundle);
  bundle.turn.reset();
  const TimePoint ended = now();
  if (status.ok()) {
    options_.meter->ended(EndedBundle{.tensors = bundle.operations.size(),
                                      .bytes = input_bytes(bundle),
                                      .duration_ns = to_ns(ended - started)});
  }
  for (const OperationPtr& operation : bundle.operations) {
    if (operation && operation->tensor_finished(status)) {
      const Request& request = operation->submission().request;
      finish_(operation, with_request(judged(*operation), request), ended);
    }
  }
  options_.role->notify_callers();
  if (!bundle.paced) return;
  paced_ended_.fetch_add(1, std::memory_order_acq_rel);
  if (coordinates_) options_.role->request_step();  // to let more go
}

/// Names the tensor whose data changed, or the first of those that were on their way.
Status BundleQueue::located(const Status& status, const QueuedBundle& bundle) {
  const auto& all = bundle.operations;
  const std::size_t at = status.tensor().value_or(0);
  if (at >= all.size() || !all[at]) return status;
  const std::string part =
      bundle.partition == 0 ? "" : fmt::format(", part {} of it", bundle.partition);
  const std::string others = status.tensor() || all.size() == 1
                                 ? ""
                                 : fmt::format(" or another of {} tensors", all.size());
  return status.with_context(described(all[at]->submission().request) + part + others);
}

/// The status of an operation whose tensors have all ended.
Status BundleQueue::judged(Operation& operation) const {
  const Status& status = operation.tensors_status();
  if (!status.ok() || !operation.finding().exists() || options_.nonfinite == nullptr) return status;
  operation.settle_finding(options_.member.members, options_.nonfinite->steps());
  return operation.submission().holds_finding ? Status() : options_.nonfinite->judge(operation);
}

void BundleQueue::thread_main() {
  name_this_thread("ronde-queue");
  for (;;) {
    QueuedBundle bundle;
    {
      MutexLock lock(mutex_);
      running_ = false;
      while (queue_.empty() && !stop_) changed_.wait(mutex_);
      if (queue_.empty()) return;
      bundle = std::move(queue_.front());
      queue_.pop_front();
      running_ = true;
    }
    execute(bundle);
  }
}

}  // namespace ronde
