// One NCCL communicator. It is made and driven without blocking calls, and aborted as soon as the
// group is declared broken, so no caller blocks for ever.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>

#include "backends/nccl/library.h"
#include "core/base/abort.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/ports/device_ops.h"

namespace ronde::nccl {

/// A communicator and this rank in it. All ranks have the same `id` and `size`.
struct Place {
  ncclUniqueId id;
  int rank = 0;
  int size = 1;
  TimePoint deadline = kForever;
};

/// Threads: call() one at a time. Its own thread watches the abort token, and NCCL's asynchronous
/// errors while work is running.
class Communicator {
 public:
  /// Collective over the ranks. Blocks until all have come, the token is aborted, or the deadline
  /// of the place has passed.
  static Result<std::unique_ptr<Communicator>> open(const Api& api, const Place& place,
                                                    std::shared_ptr<DeviceOps> device,
                                                    std::shared_ptr<AbortToken> abort);
  /// Finalizes and destroys the communicator; after an error, aborts it.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Calls `function(handle)`, which returns NCCL's code, and waits until NCCL has accepted it.
  /// Errors: the abort's status; kUnavailable naming `name`.
  template <typename Function>
  Status call(const char* name, Function function) RONDE_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (handle_ == nullptr) return gone();
      const ncclResult_t code = function(handle_);
      if (code != ncclSuccess && code != ncclInProgress) return status_of(api_, code, name);
    }
    return settle(name);
  }

  /// Looks for asynchronous errors until `done` is reached.
  void watch(DeviceEventPtr done) RONDE_EXCLUDES(mutex_);

  [[nodiscard]] const Api& api() const noexcept { return api_; }

 private:
  Communicator(const Api& api, std::shared_ptr<DeviceOps> device,
               std::shared_ptr<AbortToken> abort);
  Status settle(const char* name, TimePoint deadline = kForever) RONDE_EXCLUDES(mutex_);
  /// NCCL's asynchronous state.
  ncclResult_t state() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] Status gone() const;
  void abort_now() RONDE_EXCLUDES(mutex_);
  void close() noexcept RONDE_EXCLUDES(mutex_);
  void watch_main() RONDE_EXCLUDES(mutex_);
  void look_for_errors();

  const Api api_;
  const std::shared_ptr<DeviceOps> device_;
  const std::shared_ptr<AbortToken> abort_;
  int listener_ = 0;
  Mutex mutex_;  // held during calls of NCCL, which do not block
  CondVar changed_;
  ncclComm_t handle_ RONDE_GUARDED_BY(mutex_) = nullptr;
  DeviceEventPtr under_way_ RONDE_GUARDED_BY(mutex_);
  bool aborted_ RONDE_GUARDED_BY(mutex_) = false;
  bool stop_ RONDE_GUARDED_BY(mutex_) = false;
  std::thread watcher_;  // last
};

/// Allocates memory registered with one communicator. Both must outlive the memory. Threads: one at
/// a time. Source: NCCL's "User Buffer Registration".
class RegisteredMemory {
 public:
  RegisteredMemory(Communicator& communicator, std::shared_ptr<DeviceOps> device)
      : communicator_(communicator), device_(std::move(device)) {}

  /// As ronde::Communicator::allocate; null where this NCCL cannot register memory, or has no room.
  /// Memory whose registration fails is used all the same, which is slower, and logged once.
  std::shared_ptr<std::byte> allocate(std::size_t bytes, DeviceStream stream);

 private:
  void give_back(std::byte* memory, void* registration, DeviceStream stream);

  Communicator& communicator_;
  const std::shared_ptr<DeviceOps> device_;
  bool told_ = false;
};

}  // namespace ronde::nccl
