// A device whose memory is the host's and whose work is done as soon as it is queued: for tests of
// what stands on a device's port.
#pragma once

#include <cstring>
#include <memory>

#include "core/ports/device_ops.h"

namespace ronde::test {

/// Threads: one. Has no kernels.
class HostDevice final : public DeviceOps {
 public:
  [[nodiscard]] int index() const noexcept override { return 0; }
  Status make_current() override { return {}; }
  Result<std::shared_ptr<std::byte>> allocate(MemoryKind, std::size_t bytes) override {
    return std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>());
  }
  Result<DeviceStream> open_stream() override { return static_cast<DeviceStream>(this); }
  Status copy(void* to, const void* from, std::size_t bytes, DeviceStream) override {
    ++copies;
    if (bytes != 0) std::memcpy(to, from, bytes);
    return {};
  }
  Status transform(const BatchedCopy&, DeviceStream) override {
    return {Code::kUnsupported, "no kernels"};
  }
  Result<DeviceEventPtr> record(DeviceStream, EventUse) override {
    return DeviceEventPtr(std::make_shared<Reached>());
  }
  Status wait(DeviceStream, const DeviceEvent&) override { return {}; }

  int copies = 0;

 private:
  struct Reached final : DeviceEvent {
    [[nodiscard]] Result<bool> reached() const override { return true; }
    [[nodiscard]] Result<std::int64_t> ns_since(const DeviceEvent&) const override { return 0; }
  };
};

}  // namespace ronde::test
