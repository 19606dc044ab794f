#include "backends/net/transport/mailbox.h"

namespace ronde::net {

void Mailbox::put(Arrival arrival) {
  {
    const MutexLock lock(mutex_);
    mail_.links.push_back(std::move(arrival));
  }
  filled_.store(true);
  notify_event(wake_.get());
}

void Mailbox::put(Failure failure) {
  {
    const MutexLock lock(mutex_);
    mail_.failures.push_back(std::move(failure));
  }
  filled_.store(true);
  notify_event(wake_.get());
}

Mailbox::Mail Mailbox::take() {
  if (!filled_.load(std::memory_order_relaxed)) return {};
  clear_event(wake_.get());
  filled_.store(false);
  const MutexLock lock(mutex_);
  return std::exchange(mail_, {});
}

}  // namespace ronde::net
