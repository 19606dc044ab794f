#include "core/engine/queues/launch_coordinator.h"

#include "core/engine/queues/queues.h"

namespace ronde {
namespace {

/// Names a set to all ranks of the job. Sets that only their members know may have the same id
/// where they have no member in common; then their coordinators differ.
std::uint64_t name_of(int coordinator, SetId id) {
  return static_cast<std::uint64_t>(coordinator) << 32U | static_cast<std::uint32_t>(id);
}

}  // namespace

void LaunchCoordinator::ask(SetId id) {
  if (sender_.topology().rank == 0) return order(0, id);
  sender_.add(0, {});
  sender_.send(EnginePart::kLaunch, static_cast<std::uint64_t>(id));
}

void LaunchCoordinator::order(int coordinator, SetId id) {
  early_.push_back(name_of(coordinator, id));
  order_early();
}

void LaunchCoordinator::order_early() {
  SetQueue* const global = queues_.driven(kGlobalSet);
  if (global == nullptr || early_.empty()) return;
  for (const std::uint64_t set : early_) global->member().order_launch(set);
  early_.clear();
  ordered_ = true;
}

void LaunchCoordinator::place(std::uint64_t set) {
  for (const SetQueuePtr& queue : queues_.driven()) {
    if (name_of(queue->members().front(), queue->id()) == set) queue->place_launch();
  }
}

void LaunchCoordinator::on_started(SetQueue& queue) {
  if (ended_) queue.end_launches();
  order_early();
}

void LaunchCoordinator::end_if_closed() {
  const SetQueue* const global = ended_ ? nullptr : queues_.driven(kGlobalSet);
  if (global == nullptr || !global->closed()) return;
  ended_ = true;
  for (const SetQueuePtr& queue : queues_.driven()) {
    if (queue->id() != kGlobalSet) queue->end_launches();
  }
}

}  // namespace ronde
