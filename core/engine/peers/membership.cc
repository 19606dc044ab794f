#include "core/engine/peers/membership.h"

#include <set>
#include <utility>

#include "core/engine/frames/frame.h"
#include "core/protocol/tree.h"

namespace ronde {

void Membership::end_all() {
  const Status reason = job_status();
  tell_failure(reason);
  queues_.fail_pending(reason);
  messages_.fail_all(reason);
  tasks_.notify_callers();
}

void Membership::tell_failure(const Status& reason) {
  // The channel itself reports deaths. A rank that shuts down breaks nothing for others.
  if (reason.code() == Code::kAborted) return;
  if (!knowing_) knowing_.emplace();
  for (const int rank : recipients()) {
    if (knowing_->insert(rank).second) sender_.add(rank, make_failure(reason));
  }
  sender_.send(EnginePart::kFailure, 0);
}

/// A failure goes to all ranks of a host at once, and from host to host along a tree of those
/// that have not left.
std::vector<int> Membership::recipients() const {
  const Topology& topology = sender_.topology();
  std::vector<int> present;
  std::vector<int> hosts;
  {
    MutexLock lock(mutex_);
    for (int rank = 0; rank < topology.size(); ++rank) {
      if (left_.contains(rank)) continue;
      present.push_back(rank);
      hosts.push_back(topology.peers[static_cast<std::size_t>(rank)].host_index);
    }
  }
  const TreePlace place = place_in_tree(topology.rank, present, hosts);
  std::set<int> all(place.children.begin(), place.children.end());
  if (!place.is_root()) all.insert(place.parent);
  for (const int rank : present) {
    if (topology.same_host(rank, topology.rank)) all.insert(rank);
  }
  all.erase(topology.rank);
  return {all.begin(), all.end()};
}

Status Membership::on_failure_frame(int from, std::span<const std::byte> payload) {
  Status failure;
  RONDE_RETURN_IF_ERROR(read_failure(payload, failure));
  if (!knowing_) knowing_.emplace();
  knowing_->insert(from);
  const Topology& topology = sender_.topology();
  if (topology.same_host(from, topology.rank)) {
    for (const int rank : topology.host_ranks(from)) knowing_->insert(rank);
  }
  abort().abort(failure);
  return {};
}

void Membership::on_left(int rank, const Status& reason) {
  {
    MutexLock lock(mutex_);
    left_.emplace(rank, reason);
  }
  if (knowing_) tell_failure(job_status());  // another rank may have the place of this one
  messages_.on_left(rank, reason);
  tasks_.notify_callers();
}

std::shared_ptr<const std::atomic<bool>> Membership::leave(std::vector<SetQueuePtr> queues,
                                                           std::string why) {
  auto left = std::make_shared<std::atomic<bool>>(false);
  tasks_.post([this, queues = std::move(queues), left, why = std::move(why)] {
    for (const SetQueuePtr& queue : queues) queue->member().leave(why);
    left->store(true);
    tasks_.notify_callers();
  });
  return left;
}

Status Membership::failure_of(int rank) const {
  RONDE_RETURN_IF_ERROR(job_status());
  MutexLock lock(mutex_);
  const auto found = left_.find(rank);
  return found == left_.end() ? Status() : found->second;
}

}  // namespace ronde
