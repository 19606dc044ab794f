// Waits without a limit: where no other thread could submit anything, the job is told.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <span>

#include "bindings/elastic/ranks.h"
#include "bindings/python/bind.h"

namespace ronde::python {

/// This thread's wait for some operations, all of which it waits for before it does anything else.
/// Owns: nothing; what it is given lives longer. Threads: one.
class BlockedWait {
 public:
  BlockedWait(Runtime& runtime, std::span<const OperationPtr> operations)
      : runtime_(runtime), operations_(operations) {}
  ~BlockedWait() {
    if (blocked_ != nullptr) blocked_->store(false, std::memory_order_release);
  }
  BlockedWait(const BlockedWait&) = delete;
  BlockedWait& operator=(const BlockedWait&) = delete;

  /// Blocks until one of them is done and returns its status. Without the GIL.
  Status wait(const OperationPtr& operation);

 private:
  void declare();

  Runtime& runtime_;
  const std::span<const OperationPtr> operations_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::shared_ptr<std::atomic<bool>> blocked_;
};

/// The ranks of the runtime's job, for calls without the GIL: they wait like Handle.wait().
elastic::Ranks ranks_of(Runtime& runtime);

}  // namespace ronde::python
