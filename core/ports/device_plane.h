// A data plane for tensors in device memory: it queues collectives on a stream, like any other work
// of the device, and does not wait for them.
#pragma once

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
