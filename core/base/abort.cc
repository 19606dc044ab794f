#include "core/base/abort.h"

#include <utility>

namespace ronde {

Status AbortToken::status() const {
  if (!aborted()) return {};
  MutexLock lock(mutex_);
  return reason_;
}

void AbortToken::abort(const Status& reason) {
  MutexLock lock(mutex_);
  if (aborted_.load(std::memory_order_relaxed)) return;
  reason_ = reason;
  aborted_.store(true, std::memory_order_release);
  for (auto& [id, listener] : listeners_) listener();
}

int AbortToken::listen(std::function<void()> listener) const {
  MutexLock lock(mutex_);
  if (aborted_.load(std::memory_order_relaxed)) listener();
  const int id = next_id_++;
  listeners_.emplace(id, std::move(listener));
  return id;
}

void AbortToken::unlisten(int id) const {
  MutexLock lock(mutex_);
  listeners_.erase(id);
}

}  // namespace ronde
