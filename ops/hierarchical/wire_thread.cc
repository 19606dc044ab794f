#include "ops/hierarchical/wire_thread.h"

#include <chrono>
#include <utility>

#include "core/base/clock.h"
#include "core/base/thread_name.h"

namespace ronde {

WireThread::~WireThread() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void WireThread::start(Job job) {
  if (!thread_.joinable()) thread_ = std::thread([this] { main(); });
  MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

Status WireThread::wait(const AbortToken& abort) {
  constexpr std::chrono::milliseconds kSlice{20};
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (ended_.empty()) changed_.wait_until(mutex_, now() + kSlice);
      if (!ended_.empty()) {
        Status status = std::move(ended_.front());
        ended_.pop_front();
        return status;
      }
    }
    if (abort.poll()) return abort.status();
  }
}

void WireThread::drain() {
  MutexLock lock(mutex_);
  while (running_ || !jobs_.empty()) changed_.wait(mutex_);
  ended_.clear();
}

void WireThread::main() {
  name_this_thread("ronde-wire");
  MutexLock lock(mutex_);
  for (;;) {
    while (jobs_.empty() && !stop_) changed_.wait(mutex_);
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    running_ = true;
    mutex_.unlock();
    Status status = job();
    mutex_.lock();
    running_ = false;
    ended_.push_back(std::move(status));
    changed_.notify_all();
  }
}

}  // namespace ronde
