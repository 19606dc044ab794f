#include "core/engine/peers/membership.h"

#include <utility>

#include "core/engine/peers/frame.h"

namespace ronde {

void Membership::fail(const Status& reason) {
  parts_.abort.abort(reason);
  parts_.intake.post([this, reason] { fail_now(reason); });
}

void Membership::fail_now(const Status& reason) {
  parts_.abort.abort(reason);
  const Status first = job_status();
  tell_failure(first);
  parts_.queues.fail_pending(first);
  parts_.messages.fail_all(first);
  parts_.role.notify_callers();
}

void Membership::tell_failure(const Status& reason) {
  // The channel itself reports deaths. A rank that shuts down breaks nothing for others.
  if (std::exchange(others_know_failure_, true) || reason.code() == Code::kAborted) return;
  for (int rank = 0; rank < parts_.topology.size(); ++rank) {
    if (rank != parts_.topology.rank) parts_.outbox.add(rank, make_failure(reason));
  }
  parts_.outbox.send(EnginePart::kFailure, 0);
}

Status Membership::on_failure_frame(std::span<const std::byte> payload) {
  Status failure;
  RONDE_RETURN_IF_ERROR(read_failure(payload, failure));
  others_know_failure_ = true;  // the sender tells every rank
  fail_now(failure);
  return {};
}

void Membership::on_left(int rank, const Status& reason) {
  {
    MutexLock lock(mutex_);
    left_.emplace(rank, reason);
  }
  parts_.messages.on_left(rank, reason);
  parts_.role.notify_callers();
}

std::shared_ptr<const std::atomic<bool>> Membership::leave(std::vector<SetQueuePtr> queues,
                                                           std::string why) {
  auto left = std::make_shared<std::atomic<bool>>(false);
  parts_.intake.post([this, queues = std::move(queues), left, why = std::move(why)] {
    for (const SetQueuePtr& queue : queues) queue->negotiator().leave(now(), why);
    left->store(true);
    parts_.role.notify_callers();
  });
  return left;
}

Status Membership::failure_of(std::span<const int> ranks) const {
  RONDE_RETURN_IF_ERROR(job_status());
  MutexLock lock(mutex_);
  for (const int rank : ranks) {
    const auto found = left_.find(rank);
    if (found != left_.end()) return found->second;
  }
  return {};
}

void Membership::note_left_behind(const Status& why) {
  {
    MutexLock lock(mutex_);
    if (left_behind_.message() == why.message()) return;  // reported once for each rank in turn
    left_behind_ = why;
  }
  if (on_left_behind_) on_left_behind_();
}

Status Membership::left_behind() const {
  MutexLock lock(mutex_);
  return left_behind_;
}

}  // namespace ronde
