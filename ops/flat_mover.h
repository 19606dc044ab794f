// Where flat buffers lie and how bytes get there and back: host memory, or a device's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/ports/backend.h"
#include "core/ports/device_ops.h"

namespace ronde {

/// Threads: one at a time.
class FlatMover {
 public:
  virtual ~FlatMover() = default;
  /// Memory for flat buffers, never null. Throws std::bad_alloc.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  /// Copies, or is going to; a null `from` counts as zeros, `to` equal to `from` does nothing.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
};

/// Host memory: the data plane's own where it has a kind that it moves best, else the heap's.
class HostMover final : public FlatMover {
 public:
  /// `plane` may be null and must outlive this.
  explicit HostMover(BackendGroup* plane) : plane_(plane) {}
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;

 private:
  BackendGroup* const plane_;
};

/// A device's memory. Copies are gathered, and queued together by flush(): one launch for all.
class DeviceMover final : public FlatMover {
 public:
  explicit DeviceMover(std::shared_ptr<DeviceOps> device) : device_(std::move(device)) {}
  /// Where the device has no room it is pinned host memory, which the device reaches too; that is
  /// slow, and is warned of.
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  /// Queues what was gathered since the last call. Errors: as DeviceOps::transform.
  Status flush(DeviceStream stream);

 private:
  const std::shared_ptr<DeviceOps> device_;
  std::vector<DeviceStrip> strips_;
};

}  // namespace ronde
