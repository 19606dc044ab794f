// A thread that does jobs in order while its owner does something else.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "core/base/abort.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace ronde {

/// Jobs are started and waited for by one owner. The thread begins with the first job.
class WireThread {
 public:
  using Job = std::function<Status()>;

  WireThread() = default;
  ~WireThread();
  WireThread(const WireThread&) = delete;
  WireThread& operator=(const WireThread&) = delete;

  /// Queues a job.
  void start(Job job) RONDE_EXCLUDES(mutex_);
  /// Blocks until the oldest job that has not been waited for has ended, and returns its status.
  /// Errors: the abort's status; the job goes on then.
  Status wait(const AbortToken& abort) RONDE_EXCLUDES(mutex_);
  /// Blocks until no job is left, and forgets how they ended.
  void drain() RONDE_EXCLUDES(mutex_);

 private:
  void main() RONDE_EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ RONDE_GUARDED_BY(mutex_);
  std::deque<Status> ended_ RONDE_GUARDED_BY(mutex_);
  bool running_ RONDE_GUARDED_BY(mutex_) = false;
  bool stop_ RONDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // the owner's
};

}  // namespace ronde
