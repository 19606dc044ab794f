// Copies of segments of device memory in pinned host memory.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/abort.h"
#include "core/ports/communicator.h"
#include "core/ports/device_ops.h"
#include "ops/memory/memory.h"

namespace ronde {

/// kAborted: other ranks wait for this one, so the group is broken.
Status out_of_memory(const DeviceOps& device, std::string_view what, std::size_t bytes);

/// Threads: one at a time.
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

}  // namespace ronde
