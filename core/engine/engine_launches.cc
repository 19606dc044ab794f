// One order of launches for all sets of a job: see launch_order.h.
#include <algorithm>

#include "core/engine/engine.h"

namespace ronde {
namespace {

/// Names a set to all ranks of the job. Sets that are known to their members only may have the same
/// id where they have no member in common, and then not the same coordinator.
std::uint64_t name_of(int coordinator, SetId id) {
  return static_cast<std::uint64_t>(coordinator) << 32U | static_cast<std::uint32_t>(id);
}

}  // namespace

SetQueue* Engine::global_queue() const {
  const auto found = std::find_if(driven_queues_.begin(), driven_queues_.end(),
                                  [](const QueuePtr& queue) { return queue->id() == kGlobalSet; });
  return found == driven_queues_.end() ? nullptr : found->get();
}

void Engine::ask_for_launch(SetId id) {
  const int rank = channel_.topology().rank;
  if (rank == 0) return order_launch(rank, id);
  out_.push_back({0, {}});
  send_frames(EnginePart::kLaunch, static_cast<std::uint64_t>(id));
}

void Engine::order_launch(int coordinator, SetId id) {
  early_launches_.push_back(name_of(coordinator, id));
  order_early_launches();
}

/// Other ranks may have agreed on work of their sets before this one has the global set.
void Engine::order_early_launches() {
  SetQueue* const global = global_queue();
  if (global == nullptr || early_launches_.empty()) return;
  for (const std::uint64_t set : early_launches_) global->order_launch(set);
  early_launches_.clear();
  launch_ordered_ = true;
}

void Engine::place_launch(std::uint64_t set) {
  for (const QueuePtr& queue : driven_queues_) {
    if (name_of(queue->members().front(), queue->id()) == set) queue->place_launch();
  }
}

void Engine::end_launches() {
  const SetQueue* const global = global_queue();
  if (launches_ended_ || global == nullptr || !global->closed()) return;
  launches_ended_ = true;
  for (const QueuePtr& queue : driven_queues_) {
    if (queue->id() != kGlobalSet) queue->end_launches();
  }
}

}  // namespace ronde
