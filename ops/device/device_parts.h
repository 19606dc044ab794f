// The device of a group, with its communicators and the order of launches.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/device_ops.h"
#include "ops/hierarchical/host_layout.h"

namespace ronde {

/// Orders the launches of several groups on one device. Each group has a stream of its own, and a
/// kernel that waits for other ranks may hold what theirs need. Threads: any.
class LaunchChain {
 public:
  /// Makes the stream's later work follow all launches so far.
  Status join(DeviceOps& device, DeviceStream stream) RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!last_ || stream_ == stream) return {};
    return device.wait(stream, *last_);
  }
  /// `done` is the point in `stream` after the last launch.
  void extend(DeviceStream stream, DeviceEventPtr done) RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    stream_ = stream;
    last_ = std::move(done);
  }

 private:
  Mutex mutex_;
  DeviceStream stream_ RONDE_GUARDED_BY(mutex_) = nullptr;
  DeviceEventPtr last_ RONDE_GUARDED_BY(mutex_);
};

/// A device, and the communicators that were opened on it.
struct DeviceParts {
  std::shared_ptr<DeviceOps> device;
  std::unique_ptr<Communicator> whole;  ///< Among all ranks; null: work is staged.
  std::shared_ptr<LaunchChain> chain =
      nullptr;  ///< Shared by the groups on the device; null: one group.
  /// Among this host's ranks, for allreduces in two levels. Null: one level.
  std::unique_ptr<Communicator> inside = nullptr;
  HostLayout layout = {};  ///< Set if `inside` is.
};

/// Opens them for this rank's device `index`: collective over the group, at its first work in
/// device memory. Errors: kUnsupported, the same on all ranks.
using DeviceOpener = std::function<Result<DeviceParts>(int index)>;

}  // namespace ronde
