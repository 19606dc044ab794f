#include "core/base/abort.h"

#include <utility>

namespace ronde {

bool AbortToken::poll() const {
  if (checking_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id()) (*check_)();
  return aborted();
}

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

WaitCheck::WaitCheck(const AbortToken& token, std::function<void()> check)
    : token_(token), check_(std::move(check)) {
  token_.check_ = &check_;
  token_.checking_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

WaitCheck::~WaitCheck() {
  token_.checking_thread_.store(std::thread::id(), std::memory_order_relaxed);
}

}  // namespace ronde
