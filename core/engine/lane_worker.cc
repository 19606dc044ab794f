#include "core/engine/lane_worker.h"

#include <utility>

namespace ronde {

LaneWorker::LaneWorker(std::unique_ptr<Executor> executor, std::shared_ptr<AbortToken> abort,
                       FinishOperation finish, std::function<void()> paced_ended)
    : executor_(std::move(executor)),
      abort_(std::move(abort)),
      finish_(std::move(finish)),
      paced_ended_(std::move(paced_ended)) {}

LaneWorker::~LaneWorker() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void LaneWorker::run_or_queue(ReadyBundle ready, bool may_run_here) {
  if (may_run_here && executor_->polls() && !busy()) {
    execute(ready);  // nobody else queues: this is the driving thread
    return;
  }
  MutexLock lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { thread_main(); });
  queue_.push_back(std::move(ready));
  changed_.notify_all();
}

bool LaneWorker::busy() const {
  MutexLock lock(mutex_);
  return running_ || !queue_.empty();
}

void LaneWorker::execute(ReadyBundle& ready) {
  const Status status =
      abort_->aborted() ? abort_->status() : executor_->execute(ready.bundle, *abort_);
  for (const OperationPtr& operation : ready.operations) {
    if (operation && operation->tensor_finished(status)) {
      finish_(operation, operation->tensors_status());
    }
  }
  if (ready.paced && paced_ended_) paced_ended_();
}

void LaneWorker::thread_main() {
  for (;;) {
    ReadyBundle ready;
    {
      MutexLock lock(mutex_);
      running_ = false;
      while (queue_.empty() && !stop_) changed_.wait(mutex_);
      if (queue_.empty()) return;
      ready = std::move(queue_.front());
      queue_.pop_front();
      running_ = true;
    }
    execute(ready);
  }
}

}  // namespace ronde
