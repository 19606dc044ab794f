#include "backends/nccl/registered_memory.h"

#include <chrono>
#include <thread>

#include "core/base/log.h"

namespace ronde::nccl {
namespace {

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
