#include "ops/device/launch_chain.h"

#include <utility>

namespace ronde {

Status LaunchChain::join(DeviceOps& device, DeviceStream stream) {
  const MutexLock lock(mutex_);
  if (!last_ || stream_ == stream) return {};
  return device.wait(stream, *last_);
}

void LaunchChain::extend(DeviceStream stream, DeviceEventPtr done) {
  const MutexLock lock(mutex_);
  stream_ = stream;
  last_ = std::move(done);
}

}  // namespace ronde
