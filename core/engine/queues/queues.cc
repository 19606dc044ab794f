#include "core/engine/queues/queues.h"

#include <algorithm>
#include <utility>

namespace ronde {

void Queues::add(const SetQueuePtr& queue) {
  MutexLock lock(mutex_);
  known_[queue->id()] = queue;
}

SetQueuePtr Queues::remove(SetId id) {
  MutexLock lock(mutex_);
  auto node = known_.extract(id);
  return node.empty() ? nullptr : std::move(node.mapped());
}

SetQueuePtr Queues::find(SetId id) const {
  MutexLock lock(mutex_);
  const auto found = known_.find(id);
  return found == known_.end() ? nullptr : found->second;
}

std::vector<SetQueuePtr> Queues::all() const {
  MutexLock lock(mutex_);
  std::vector<SetQueuePtr> queues;
  for (const auto& [id, queue] : known_) queues.push_back(queue);
  return queues;
}

bool Queues::idle() const {
  MutexLock lock(mutex_);
  return std::all_of(known_.begin(), known_.end(),
                     [](const auto& entry) { return entry.second->outstanding() == 0; });
}

void Queues::clear() {
  std::unordered_map<SetId, SetQueuePtr> known;
  {
    MutexLock lock(mutex_);
    known.swap(known_);
  }
  known.clear();
  driven_.clear();
}

Status Queues::start(const SetQueuePtr& queue) {
  driven_.push_back(queue);
  launches_.on_started(*queue);
  Status first;
  const auto early = early_.extract(queue->id());
  if (early.empty()) return first;
  for (const auto& [from, payload] : early.mapped()) {
    const Status status = queue->member().on_frame(from, payload, now());
    if (first.ok()) first = status;
  }
  return first;
}

void Queues::stop(const SetQueuePtr& queue) {
  stopped_.insert(queue->id());
  std::erase(driven_, queue);
}

Status Queues::on_frame(int from, SetId id, std::span<const std::byte> payload) {
  if (SetQueue* const queue = driven(id)) return queue->member().on_frame(from, payload, now());
  if (!stopped_.contains(id)) {  // the sender has added the set before this rank has
    early_[id].emplace_back(from, std::vector<std::byte>(payload.begin(), payload.end()));
  }
  return {};
}

SetQueue* Queues::driven(SetId id) const {
  const auto found = std::find_if(driven_.begin(), driven_.end(),
                                  [&](const SetQueuePtr& queue) { return queue->id() == id; });
  return found == driven_.end() ? nullptr : found->get();
}

bool Queues::come_due() {
  if (next_deadline_ == kForever) return false;
  const TimePoint time = now();
  if (time < next_deadline_) return false;
  for (const SetQueuePtr& queue : driven_) queue->member().on_time(time);
  return true;
}

void Queues::update_deadline() {
  next_deadline_ = kForever;
  for (const SetQueuePtr& queue : driven_) {
    next_deadline_ = std::min(next_deadline_, queue->member().next_deadline());
  }
}

void Queues::send_negotiations() {
  for (const SetQueuePtr& queue : driven_) {
    queue->member().take_frames(sender_.frames());
    sender_.send(EnginePart::kNegotiation, static_cast<std::uint64_t>(queue->id()));
  }
}

void Queues::take_warnings(std::vector<QueueWarning>& out) {
  for (const SetQueuePtr& queue : driven_) queue->take_warnings(out);
}

bool Queues::collect_agreed() {
  bool any = false;
  do {
    for (const SetQueuePtr& queue : driven_) any |= queue->collect_agreed();
  } while (launches_.take_ordered());
  launches_.end_if_closed();
  return any;
}

void Queues::run_agreed(bool may_run_here) {
  for (const SetQueuePtr& queue : driven_) queue->run_agreed(may_run_here && alone(*queue));
}

bool Queues::alone(const SetQueue& queue) const {
  return std::all_of(driven_.begin(), driven_.end(), [&](const SetQueuePtr& other) {
    return other.get() == &queue || other->outstanding() == 0;
  });
}

bool Queues::executing() const {
  return std::any_of(driven_.begin(), driven_.end(),
                     [](const SetQueuePtr& queue) { return queue->executing(); });
}

void Queues::fail_pending(const Status& reason) {
  for (const SetQueuePtr& queue : driven_) queue->fail_pending(reason);
}

std::vector<std::string> Queues::describe_pending() const {
  std::vector<std::string> lines;
  for (const SetQueuePtr& queue : driven_) {
    for (std::string& line : queue->member().describe_pending()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace ronde
