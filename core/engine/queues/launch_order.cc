#include "core/engine/queues/launch_order.h"

#include <utility>

namespace ronde {

void LaunchOrder::place(Turn& turn) {
  const MutexLock lock(mutex_);
  turn.place_ = ++placed_;
  under_way_.insert(turn.place_);
  changed_.notify_all();
}

void LaunchOrder::refuse(Turn& turn) {
  const MutexLock lock(mutex_);
  turn.refused_ = true;
  changed_.notify_all();
}

void LaunchOrder::end(const Turn& turn) {
  const MutexLock lock(mutex_);
  under_way_.erase(turn.place_);
  changed_.notify_all();
}

Result<bool> LaunchOrder::wait(const Turn& turn, const AbortToken& abort) {
  {
    const MutexLock lock(mutex_);
    if (has_come(turn)) return true;
  }
  const int listener = abort.listen([this] {
    const MutexLock lock(mutex_);
    changed_.notify_all();
  });
  bool mine = false;
  {
    const MutexLock lock(mutex_);
    while (!turn.refused_ && !abort.aborted() && !has_come(turn)) changed_.wait(mutex_);
    mine = has_come(turn);
  }
  abort.unlisten(listener);
  if (!mine && abort.aborted()) return abort.status();
  return mine;
}

bool LaunchOrder::has_come(const Turn& turn) const {
  return turn.place_ != 0 && *under_way_.begin() == turn.place_;
}

LaunchOrder::TurnPtr QueueTurns::take() {
  if (!early_.empty()) {
    LaunchOrder::TurnPtr turn = std::move(early_.front());
    early_.pop_front();
    return turn;
  }
  auto turn = std::make_shared<LaunchOrder::Turn>(order_);
  if (closed_) {
    order_.refuse(*turn);
  } else {
    unplaced_.push_back(turn);
  }
  return turn;
}

void QueueTurns::place_next() {
  if (unplaced_.empty()) {
    order_.place(*early_.emplace_back(std::make_shared<LaunchOrder::Turn>(order_)));
    return;
  }
  // A turn that has ended already needs no place.
  if (const auto turn = unplaced_.front().lock()) order_.place(*turn);
  unplaced_.pop_front();
}

void QueueTurns::close() {
  closed_ = true;
  for (const auto& unplaced : unplaced_) {
    if (const auto turn = unplaced.lock()) order_.refuse(*turn);
  }
  unplaced_.clear();
}

}  // namespace ronde
