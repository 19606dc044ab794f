#include "core/engine/queues/task_queue.h"

#include <optional>
#include <utility>

namespace ronde {

OperationPtr TaskQueue::submit(const SetQueuePtr& queue, Submission&& submission,
                               bool caller_waits) {
  auto operation = std::make_shared<Operation>(
      std::move(submission), next_ticket_.fetch_add(1, std::memory_order_relaxed));
  const Request& request = operation->submission().request;
  record(*operation, {.name = request.name,
                      .kind = static_cast<int>(request.kind),
                      .set = queue->id(),
                      .bytes = operation->input_bytes()});
  queue->count_in();
  put({queue, operation, {}}, caller_waits);
  return operation;
}

OperationPtr TaskQueue::make_message(int kind, std::size_t bytes) {
  auto operation = std::make_shared<Operation>(
      Submission{}, next_ticket_.fetch_add(1, std::memory_order_relaxed));
  record(*operation, {.name = {}, .kind = kind, .set = kGlobalSet, .bytes = bytes});
  return operation;
}

void TaskQueue::finish_message(Operation& operation, const Status& status) {
  const TimePoint ended = now();
  records_.end(operation.record(), status.code(), ended);
  meter_.ended(ended_operation(operation, status.code(), ended));
  operation.finish(status);
}

void TaskQueue::record(Operation& operation, const OperationFacts& facts) {
  operation.set_record(records_.begin(facts));
  meter_.submitted(facts.kind, facts.bytes);
}

void TaskQueue::post(std::function<void()> call) {
  put({nullptr, nullptr, std::move(call)}, false);
}

void TaskQueue::put(Task&& task, bool caller_waits) {
  std::optional<Sleeper> sleeper;
  {
    MutexLock lock(role_.mutex());
    waiting_.push_back(std::move(task));
    sleeper = role_.add_task(caller_waits);
  }
  role_.wake(sleeper);
}

bool TaskQueue::run() {
  if (empty()) return false;  // a step costs no lock where there is nothing to do
  {
    MutexLock lock(role_.mutex());
    std::swap(taken_, waiting_);
    role_.take_tasks();
  }
  const Status broken = abort_.status();
  for (Task& task : taken_) {
    if (task.call) {
      task.call();
    } else if (task.operation && broken.ok()) {
      task.queue->submit(task.operation, now());
    } else if (task.operation) {
      task.queue->finish(task.operation, broken);
    }
  }
  taken_.clear();
  return true;
}

}  // namespace ronde
