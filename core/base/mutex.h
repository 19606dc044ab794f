// Mutex and condition variable with the annotations that clang's -Wthread-safety checks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define RONDE_THREAD_ANNOTATION_(x) __attribute__((x))
#else
#define RONDE_THREAD_ANNOTATION_(x)
#endif
#define RONDE_CAPABILITY(x) RONDE_THREAD_ANNOTATION_(capability(x))
#define RONDE_SCOPED_CAPABILITY RONDE_THREAD_ANNOTATION_(scoped_lockable)
#define RONDE_GUARDED_BY(x) RONDE_THREAD_ANNOTATION_(guarded_by(x))
#define RONDE_REQUIRES(...) RONDE_THREAD_ANNOTATION_(requires_capability(__VA_ARGS__))
#define RONDE_ACQUIRE(...) RONDE_THREAD_ANNOTATION_(acquire_capability(__VA_ARGS__))
#define RONDE_RELEASE(...) RONDE_THREAD_ANNOTATION_(release_capability(__VA_ARGS__))
#define RONDE_TRY_ACQUIRE(...) RONDE_THREAD_ANNOTATION_(try_acquire_capability(__VA_ARGS__))
#define RONDE_EXCLUDES(...) RONDE_THREAD_ANNOTATION_(locks_excluded(__VA_ARGS__))
#define RONDE_RETURN_CAPABILITY(x) RONDE_THREAD_ANNOTATION_(lock_returned(x))
#define RONDE_NO_THREAD_SAFETY_ANALYSIS RONDE_THREAD_ANNOTATION_(no_thread_safety_analysis)

namespace ronde {

/// std::mutex that clang can reason about.
class RONDE_CAPABILITY("mutex") Mutex {
 public:
  void lock() RONDE_ACQUIRE() { mutex_.lock(); }
  void unlock() RONDE_RELEASE() { mutex_.unlock(); }
  bool try_lock() RONDE_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a Mutex for a scope.
class RONDE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) RONDE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RONDE_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Condition variable for Mutex. Spurious wake-ups happen; callers loop on their condition.
class CondVar {
 public:
  /// Releases `mutex`, sleeps, takes it again.
  void wait(Mutex& mutex) RONDE_REQUIRES(mutex) RONDE_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  /// As wait, until `deadline` at the latest; false when the deadline passed.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      RONDE_REQUIRES(mutex) RONDE_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool notified = condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }

  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace ronde
