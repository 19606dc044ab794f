#include "backends/net/transport/mailbox.h"

namespace ronde::net {

void Mailbox::put(Link link) {
  {
    const MutexLock lock(mutex_);
    mail_.links.push_back(std::move(link));
  }
  filled_.store(true);
  notify_event(wake_.get());
}

void Mailbox::put(int job_rank, const Status& why) {
  {
    const MutexLock lock(mutex_);
    mail_.failures.emplace_back(job_rank, why);
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
