// Memory of a host or a device for flat buffers, with the copies into and out of it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/abort.h"
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
  /// pinned host memory, which the device reaches too; a warning says that this is slow. All ranks
  /// launch the same work even if only one of them is short of memory.
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  /// Sets the stream of flush() and of the memory.
  void work_on(DeviceStream stream) noexcept { stream_ = stream; }
  /// Queues what was gathered since the last call. Errors: as DeviceOps::transform.
  Status flush(DeviceStream stream);

 private:
  const std::shared_ptr<DeviceOps> device_;
  Communicator* const communicator_;
  DeviceStream stream_ = nullptr;
  std::vector<DeviceCopy> pending_;
};

/// Grows to the largest work seen. On a device, works of one stream share it.
/// Threads: one at a time.
class GrowingMemory {
 public:
  /// `copies` outlives it.
  explicit GrowingMemory(CopyEngine& copies) : copies_(copies) {}
  /// At least so many bytes, not initialised. Invalidates what the last call returned. Throws
  /// std::bad_alloc.
  std::byte* at_least(std::size_t bytes);

 private:
  CopyEngine& copies_;
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

/// Grows to the largest work seen: pinned, or plain where there is none. Threads: one.
class HostMemory {
 public:
  /// At least so much, not initialised. Throws std::bad_alloc.
  std::byte* at_least(std::size_t bytes, DeviceOps& device);

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

/// kAborted: other ranks wait for this one, so the group is broken.
Status out_of_memory(const DeviceOps& device, std::string_view what, std::size_t bytes);

/// Copies of segments of device memory in pinned host memory. Threads: one at a time.
class HostCopy {
 public:
  /// A stream, and its device.
  struct Queue {
    DeviceOps& device;
    DeviceStream stream;
  };
  /// Copies the inputs of segments to the host and blocks until they are there. Returns the same
  /// segments in host memory, in place, valid until the next call.
  /// Errors: the abort's status; the device's; kAborted without host memory.
  Result<std::span<const Segment>> bring_down(Queue queue, std::span<const Segment> segments,
                                              const AbortToken& abort);
  /// Queues copies of what the last bring_down() returned to the outputs of `segments`.
  Status bring_up(Queue queue, std::span<const Segment> segments) const;

 private:
  HostMemory memory_;
  std::vector<Segment> on_host_;
};

/// `bytes` rounded up, so that the next block is aligned as a device's allocate() aligns.
constexpr std::size_t device_room(std::size_t bytes) noexcept {
  constexpr std::size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace ronde
