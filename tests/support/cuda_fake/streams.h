// The fake's streams and events: queues with a thread each, and points in them.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "core/base/clock.h"
#include "core/base/mutex.h"

namespace ronde::test::cuda_fake {

/// A point that is reached once. Threads: any.
class Point {
 public:
  void reach() RONDE_EXCLUDES(mutex_);
  void wait() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] bool reached() const RONDE_EXCLUDES(mutex_);
  /// When it was reached; it must have been.
  [[nodiscard]] TimePoint time() const RONDE_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool reached_ RONDE_GUARDED_BY(mutex_) = false;
  TimePoint time_ RONDE_GUARDED_BY(mutex_);
};

/// Runs work in order, in its own thread. Threads: any.
class Stream {
 public:
  explicit Stream(int device);
  /// Runs the queued work to its end.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] int device() const noexcept { return device_; }
  void enqueue(std::function<void()> work) RONDE_EXCLUDES(mutex_);
  /// Queues a point and returns it; an idle stream reaches it at once.
  std::shared_ptr<Point> mark() RONDE_EXCLUDES(mutex_);

 private:
  void run() RONDE_EXCLUDES(mutex_);

  const int device_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> queue_ RONDE_GUARDED_BY(mutex_);
  bool stop_ RONDE_GUARDED_BY(mutex_) = false;
  bool working_ RONDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last
};

}  // namespace ronde::test::cuda_fake
