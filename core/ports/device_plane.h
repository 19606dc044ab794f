// A data plane for tensors in device memory: it queues collectives on a stream, like any other work
// of the device, and does not wait for them.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "core/base/abort.h"
#include "core/ports/backend.h"
#include "core/ports/device_ops.h"

namespace ronde {

/// A device data plane opened for one group. Threads: one at a time.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;

  /// Whether launch() can do this. The answer is the same on all ranks.
  [[nodiscard]] virtual bool supports(const WorkDesc& desc) const noexcept = 0;

  /// Queues the work, which has exactly one segment, in device memory; it reads and writes in the
  /// order of `stream`. Blocks: not for the device's work, though a plane that passes through the
  /// host waits for other ranks.
  /// Errors: the abort's status; kRankFailure; kUnavailable naming the call. The group is broken
  /// afterwards.
  virtual Status launch(const Work& work, DeviceStream stream, const AbortToken& abort) = 0;

  /// Memory of the device that this plane moves best (registered), not initialised, used in the
  /// order of `stream` alone; null where the device's own is as good, or there is none. Giving it
  /// back waits until what is queued on the stream has ended. Freed with the last copy of the
  /// pointer, at the latest before the group.
  virtual std::shared_ptr<std::byte> allocate(std::size_t /*bytes*/, DeviceStream /*stream*/) {
    return nullptr;
  }

  /// As it is shown: "nccl".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
};

/// A library that moves data between devices. Threads: any.
class DevicePlane {
 public:
  virtual ~DevicePlane() = default;

  /// As users write it after --backend: "nccl".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// Ok where it can serve a group, otherwise a sentence that says why not. Depends on this process
  /// only, so ranks may differ: the caller agrees on a common answer.
  virtual Status viable(const GroupSpec& group) = 0;

  /// Opens the group on `device`: collective over its ranks, in the same order on each. Blocks.
  virtual Result<std::unique_ptr<DeviceGroup>> open(const GroupSpec& group, Exchange& exchange,
                                                    std::shared_ptr<DeviceOps> device) = 0;
};

}  // namespace ronde
