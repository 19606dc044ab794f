// Device memory that a communicator knows, which NCCL moves without copies of its own.
#pragma once

#include <cstddef>
#include <memory>

#include "backends/nccl/communicator.h"
#include "core/ports/device_ops.h"

namespace ronde::nccl {

/// Gives out registered memory of one communicator. Both outlive the memory. Threads: one at a
/// time. Source: NCCL's "User Buffer Registration".
class RegisteredMemory {
 public:
  RegisteredMemory(Communicator& communicator, std::shared_ptr<DeviceOps> device)
      : communicator_(communicator), device_(std::move(device)) {}

  /// Memory as DeviceGroup::allocate has it; null where this NCCL cannot register, or has no room.
  /// Memory that cannot be registered does as well, more slowly: that is logged once.
  std::shared_ptr<std::byte> allocate(std::size_t bytes, DeviceStream stream);

 private:
  void give_back(std::byte* memory, void* registration, DeviceStream stream);

  Communicator& communicator_;
  const std::shared_ptr<DeviceOps> device_;
  bool told_ = false;
};

}  // namespace ronde::nccl
