// Keeps the communicators of several groups from running side by side on one device: each
// group has a stream of its own, and a kernel that waits for other ranks holds what theirs need.
#pragma once

#include "core/base/mutex.h"
#include "core/ports/device_ops.h"

namespace ronde {

/// The launches on one device, one after the other whatever stream they are on. Threads: any.
class LaunchChain {
 public:
  /// What `stream` is given from now on comes after all launches so far.
  Status join(DeviceOps& device, DeviceStream stream) RONDE_EXCLUDES(mutex_);
  /// `done` is the point in `stream` after the last launch.
  void extend(DeviceStream stream, DeviceEventPtr done) RONDE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  DeviceStream stream_ RONDE_GUARDED_BY(mutex_) = nullptr;
  DeviceEventPtr last_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
