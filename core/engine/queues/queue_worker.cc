#include "core/engine/queues/queue_worker.h"

#include <utility>

#include "core/base/thread_name.h"
#include "core/protocol/request.h"

namespace ronde {

QueueWorker::QueueWorker(QueueWorkerOptions options) : options_(std::move(options)) {}

QueueWorker::~QueueWorker() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void QueueWorker::run_or_queue(QueuedBundle bundle, bool may_run_here) {
  // Device work may have to agree with other ranks first. The driving thread must not wait for
  // that.
  const bool on_host = bundle.device.kind == DeviceKind::kCpu;
  const bool waits_for_none = !bundle.result.empty();
  const bool runs_here = may_run_here && on_host && options_.executor->polls();
  if ((waits_for_none || runs_here) && !busy()) {
    execute(bundle);  // only this thread queues: it drives
    return;
  }
  MutexLock lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { thread_main(); });
  queue_.push_back(std::move(bundle));
  changed_.notify_all();
}

bool QueueWorker::busy() const {
  MutexLock lock(mutex_);
  return running_ || !queue_.empty();
}

void QueueWorker::execute(QueuedBundle& bundle) {
  const TimePoint started = note_started(bundle);
  const AbortToken& abort = *options_.abort;
  const Status status =
      abort.aborted() ? abort.status() : options_.executor->execute(bundle, abort);
  bundle.turn.reset();
  const TimePoint ended = now();
  if (options_.meter != nullptr && status.ok()) {
    options_.meter->ended(EndedBundle{.tensors = bundle.operations.size(),
                                      .bytes = input_bytes(bundle),
                                      .duration_ns = to_ns(ended - started)});
  }
  for (const OperationPtr& operation : bundle.operations) {
    if (operation && operation->tensor_finished(status)) {
      const Request& request = operation->submission().request;
      options_.finish(operation, with_request(operation->tensors_status(), request), ended);
    }
  }
  options_.role->notify_callers();
  if (bundle.paced && options_.paced_ended) options_.paced_ended();
}

TimePoint QueueWorker::note_started(const QueuedBundle& bundle) {
  const TimePoint started = now();
  for (const OperationPtr& operation : bundle.operations) {
    if (operation) options_.records->reach(operation->record(), OperationStage::kStarted, started);
  }
  return started;
}

void QueueWorker::thread_main() {
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
