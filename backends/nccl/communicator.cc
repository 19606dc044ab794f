#include "backends/nccl/communicator.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/log.h"

namespace ronde::nccl {
namespace {

constexpr auto kPause = std::chrono::microseconds(50);  // between queries of NCCL's progress
constexpr auto kErrorInterval = std::chrono::milliseconds(100);
constexpr auto kFinalizeLimit = std::chrono::seconds(5);

constexpr auto kFreePause = std::chrono::microseconds(50);

/// Blocks until the event is reached, or the device has failed and so uses no memory any more.
void wait_for(const DeviceEvent& event) {
  for (;;) {
    const auto reached = event.reached();
    if (!reached.ok() || *reached) return;
    std::this_thread::sleep_for(kFreePause);
  }
}

}  // namespace

Communicator::Communicator(const Api& api, std::shared_ptr<DeviceOps> device,
                           std::shared_ptr<AbortToken> abort)
    : api_(api), device_(std::move(device)), abort_(std::move(abort)) {
  listener_ = abort_->listen([this] {
    const MutexLock lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  });
  watcher_ = std::thread([this] { watch_main(); });
}

Communicator::~Communicator() {
  abort_->unlisten(listener_);
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  watcher_.join();
  close();
}

Result<std::unique_ptr<Communicator>> Communicator::open(const Api& api, const Place& place,
                                                         std::shared_ptr<DeviceOps> device,
                                                         std::shared_ptr<AbortToken> abort) {
  RONDE_RETURN_IF_ERROR(device->make_current());
  std::unique_ptr<Communicator> made(new Communicator(api, std::move(device), std::move(abort)));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  {
    const MutexLock lock(made->mutex_);
    const ncclResult_t code =
        api.comm_init_rank_config(&made->handle_, place.size, place.id, place.rank, &config);
    if (code != ncclSuccess && code != ncclInProgress) {
      return status_of(api, code, "ncclCommInitRankConfig");
    }
  }
  RONDE_RETURN_IF_ERROR(made->settle("ncclCommInitRankConfig", place.deadline));
  return made;
}

Status Communicator::gone() const {
  if (abort_->aborted()) return abort_->status();
  return {Code::kAborted, "the NCCL communicator has been aborted"};
}

ncclResult_t Communicator::state() {
  const MutexLock lock(mutex_);
  ncclResult_t code = ncclSuccess;
  if (handle_ != nullptr && api_.comm_get_async_error(handle_, &code) != ncclSuccess) {
    code = ncclInternalError;
  }
  return code;
}

Status Communicator::settle(const char* name, TimePoint deadline) {
  for (;;) {
    if (abort_->aborted()) return abort_->status();
    const ncclResult_t code = state();
    if (code == ncclSuccess) return {};
    if (code != ncclInProgress) return status_of(api_, code, name);
    if (now() >= deadline)
      return {Code::kTimeout, fmt::format("{}: not all ranks have come", name)};
    std::this_thread::sleep_for(kPause);
  }
}

void Communicator::watch(DeviceEventPtr done) {
  const MutexLock lock(mutex_);
  under_way_ = std::move(done);
  changed_.notify_all();
}

void Communicator::watch_main() {
  (void)device_->make_current();
  for (;;) {
    {
      const MutexLock lock(mutex_);
      while (!stop_ && !aborted_ && !under_way_) changed_.wait(mutex_);
      if (stop_) return;
      if (!aborted_) changed_.wait_until(mutex_, now() + kErrorInterval);
      if (stop_) return;
    }
    if (abort_->aborted()) return abort_now();
    look_for_errors();
  }
}

void Communicator::look_for_errors() {
  DeviceEventPtr seen;
  {
    const MutexLock lock(mutex_);
    seen = under_way_;
  }
  if (!seen) return;
  const auto reached = seen->reached();
  const ncclResult_t code = state();
  Status status = reached.status();
  if (status.ok() && code != ncclInProgress) {
    status = status_of(api_, code, "NCCL, while data moved");
  }
  if (!status.ok()) {
    log(LogLevel::kError, "{}", status.message());
    abort_->abort(status);
  } else if (*reached) {
    const MutexLock lock(mutex_);
    if (under_way_ == seen) under_way_.reset();
  }
}

void Communicator::abort_now() {
  const MutexLock lock(mutex_);
  if (handle_ != nullptr) (void)api_.comm_abort(std::exchange(handle_, nullptr));
}

void Communicator::close() noexcept {
  {
    const MutexLock lock(mutex_);
    if (handle_ == nullptr) return;
    if (!abort_->aborted()) (void)api_.comm_finalize(handle_);
  }
  const TimePoint limit = now() + kFinalizeLimit;
  while (!abort_->aborted() && state() == ncclInProgress && now() < limit) {
    std::this_thread::sleep_for(kPause);
  }
  if (abort_->aborted() || state() != ncclSuccess) return abort_now();
  const MutexLock lock(mutex_);
  (void)api_.comm_destroy(std::exchange(handle_, nullptr));
}

std::shared_ptr<std::byte> RegisteredMemory::allocate(std::size_t bytes, DeviceStream stream) {
  const Api& api = communicator_.api();
  void* memory = nullptr;
  if (!api.registers() || bytes == 0 || !device_->make_current().ok()) return nullptr;
  if (api.mem_alloc(&memory, bytes) != ncclSuccess) return nullptr;
  void* registration = nullptr;
  const Status status = communicator_.call("ncclCommRegister", [&](ncclComm_t handle) {
    return api.comm_register(handle, memory, bytes, &registration);
  });
  if (!status.ok()) {
    registration = nullptr;
    if (!told_) {
      log(LogLevel::kWarning, "{}; fused operations go on without registered memory",
          status.message());
    }
    told_ = true;
  }
  return {static_cast<std::byte*>(memory), [this, registration, stream](std::byte* freed) {
            give_back(freed, registration, stream);
          }};
}

void RegisteredMemory::give_back(std::byte* memory, void* registration, DeviceStream stream) {
  (void)device_->make_current();
  if (const auto done = device_->record(stream); done.ok()) wait_for(**done);
  const Api& api = communicator_.api();
  if (registration != nullptr) {
    // Do not call an aborted communicator: the abort has ended its registrations and all use of
    // the memory.
    (void)communicator_.call("ncclCommDeregister", [&](ncclComm_t handle) {
      return api.comm_deregister(handle, registration);
    });
  }
  (void)api.mem_free(memory);
}

}  // namespace ronde::nccl
