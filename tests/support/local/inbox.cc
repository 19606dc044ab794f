// LocalInbox: frames never wake a thread; kick() does, if the thread has announced to sleep.
#include "tests/support/local/inbox.h"

#include <utility>

namespace ronde {

void LocalInbox::deliver(int from, std::span<const std::byte> frame) {
  MutexLock lock(mutex_);
  if (closed_ || gone_.count(from) != 0) return;
  items_.push_back({.from = from, .frame = {frame.begin(), frame.end()}, .reason = {}});
}

void LocalInbox::end(int rank, InboxItem::Kind kind, const Status& reason) {
  {
    MutexLock lock(mutex_);
    if (closed_ || !gone_.emplace(rank, reason).second) return;
    items_.push_back({.kind = kind, .from = rank, .frame = {}, .reason = reason});
  }
  for (WakeWord& word : words_) word.wake();
}

Status LocalInbox::end_of(int rank) const {
  MutexLock lock(mutex_);
  const auto found = gone_.find(rank);
  return found == gone_.end() ? Status() : found->second;
}

void LocalInbox::wake_if_unread() {
  MutexLock lock(mutex_);
  if (phase_ != Phase::kPolling && !items_.empty()) wake(sleeper_);
}

std::deque<InboxItem> LocalInbox::take() {
  MutexLock lock(mutex_);
  phase_ = phase_ == Phase::kLastLook ? Phase::kSleeping : Phase::kPolling;
  return std::exchange(items_, {});
}

std::uint32_t LocalInbox::prepare_wait(Sleeper who) {
  MutexLock lock(mutex_);
  phase_ = Phase::kLastLook;
  sleeper_ = who;
  return words_[static_cast<std::size_t>(who)].ticket();
}

void LocalInbox::wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept {
  words_[static_cast<std::size_t>(who)].wait(ticket, deadline);
}

void LocalInbox::wake(Sleeper who) noexcept { words_[static_cast<std::size_t>(who)].wake(); }

void LocalInbox::close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
    items_.clear();
  }
  for (WakeWord& word : words_) word.wake();
}

}  // namespace ronde
