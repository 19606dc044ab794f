// Where flat buffers lie and how bytes get there and back: host memory, or a device's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/device_ops.h"

namespace ronde {

/// Threads: one at a time.
class CopyEngine {
 public:
  virtual ~CopyEngine() = default;
  /// Memory for flat buffers, never null. Throws std::bad_alloc.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  /// Copies now, or enqueues the copy until flush(); a null `from` counts as zeros, `to` equal to
  /// `from` does nothing.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
};

/// Host memory: the communicator's own where it has a kind that it moves best, else the heap's.
class HostCopyEngine final : public CopyEngine {
 public:
  /// `communicator` may be null and must outlive this.
  explicit HostCopyEngine(Communicator* communicator) : communicator_(communicator) {}
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;

 private:
  Communicator* const communicator_;
};

/// A device's memory. Copies are gathered, and queued together by flush(): one launch for all.
class DeviceCopyEngine final : public CopyEngine {
 public:
  /// `communicator` may be null and must outlive this.
  DeviceCopyEngine(std::shared_ptr<DeviceOps> device, Communicator* communicator)
      : device_(std::move(device)), communicator_(communicator) {}
  /// The communicator's, where it has a kind that it moves best. Without room on the device it is
  /// pinned host memory, which the device reaches too; a warning says that this is slow. The ranks
  /// launch the same work all the same, so that one of them may be short of memory alone.
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  /// Says which stream flush() is going to be given, and the memory used on.
  void work_on(DeviceStream stream) noexcept { stream_ = stream; }
  /// Queues what was gathered since the last call. Errors: as DeviceOps::transform.
  Status flush(DeviceStream stream);

 private:
  const std::shared_ptr<DeviceOps> device_;
  Communicator* const communicator_;
  DeviceStream stream_ = nullptr;
  std::vector<DeviceCopy> pending_;
};

}  // namespace ronde
