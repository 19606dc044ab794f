#include "tests/support/cuda_fake/streams.h"

#include <utility>

namespace ronde::test::cuda_fake {

void Point::reach() {
  const MutexLock lock(mutex_);
  reached_ = true;
  time_ = now();
  changed_.notify_all();
}

void Point::wait() {
  const MutexLock lock(mutex_);
  while (!reached_) changed_.wait(mutex_);
}

bool Point::reached() const {
  const MutexLock lock(mutex_);
  return reached_;
}

TimePoint Point::time() const {
  const MutexLock lock(mutex_);
  return time_;
}

Stream::Stream(int device) : device_(device), thread_([this] { run(); }) {}

Stream::~Stream() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Stream::enqueue(std::function<void()> work) {
  const MutexLock lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

std::shared_ptr<Point> Stream::mark() {
  auto point = std::make_shared<Point>();
  const MutexLock lock(mutex_);
  if (queue_.empty() && !working_) {
    point->reach();
  } else {
    queue_.emplace_back([point] { point->reach(); });
    changed_.notify_all();
  }
  return point;
}

void Stream::run() {
  for (;;) {
    std::function<void()> work;
    {
      const MutexLock lock(mutex_);
      working_ = false;
      while (queue_.empty() && !stop_) changed_.wait(mutex_);
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
      working_ = true;
    }
    work();
  }
}

}  // namespace ronde::test::cuda_fake
