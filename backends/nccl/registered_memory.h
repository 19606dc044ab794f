// Device memory registered with a communicator: NCCL moves it without copies of its own.
#pragma once

#include <cstddef>
#include <memory>

#include "backends/nccl/communicator.h"
#include "core/ports/device_ops.h"

namespace ronde::nccl {

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
