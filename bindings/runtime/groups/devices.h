// Devices and their communicators, loaded when the first tensor in device memory comes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "bindings/runtime/groups/agreements.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/engine/queues/set_queue.h"
#include "core/ports/backend.h"
#include "core/ports/device_ops.h"
#include "ops/device/device_parts.h"

namespace ronde {

/// The source of the accelerator: the module of this build, or a test's fake.
struct DeviceLibraries {
  std::function<Result<std::shared_ptr<Accelerator>>()> accelerator;
};

/// The module of this build.
DeviceLibraries builtin_device_libraries();

/// The devices of one runtime. Threads: any.
class Devices {
 public:
  explicit Devices(DeviceLibraries libraries) : libraries_(std::move(libraries)) {}

  /// The device `index`. Errors: kUnavailable saying why this process has none, kInvalidArgument.
  Result<std::shared_ptr<DeviceOps>> open(int index) RONDE_EXCLUDES(mutex_);
  /// How many devices there are. Errors: kUnavailable saying why this process has none.
  Result<int> count() RONDE_EXCLUDES(mutex_);
  /// The chain that keeps launches of all sets on the device `index` in order.
  std::shared_ptr<LaunchChain> chain(int index) RONDE_EXCLUDES(mutex_);
  /// True if a set may work on `index`: all its tensors of this rank are on one device.
  bool claim(SetId set, int index) RONDE_EXCLUDES(mutex_);

 private:
  Result<std::shared_ptr<Accelerator>> accelerator() RONDE_REQUIRES(mutex_);

  const DeviceLibraries libraries_;
  Mutex mutex_;
  std::optional<Result<std::shared_ptr<Accelerator>>> accelerator_ RONDE_GUARDED_BY(mutex_);
  std::map<int, std::shared_ptr<LaunchChain>> chains_ RONDE_GUARDED_BY(mutex_);
  std::map<SetId, int> claimed_ RONDE_GUARDED_BY(mutex_);
};

/// The request to open communicators for a group's first work in device memory.
struct DeviceRequest {
  const Registry& registry;
  int index = 0;          ///< This rank's device.
  std::string backend;    ///< "auto" or a name.
  std::string algorithm;  ///< The user's override, or empty.
  ExchangeInside inside;
};

/// Ok if this rank can use `backend`, or if that names no backend for devices.
/// Errors: kUnavailable saying what is missing, and how to do without.
Status check_device_backend(Devices& devices, const Registry& registry, const std::string& backend,
                            const GroupSpec& group);

/// Opens what `group` needs; the ranks agree on which way its work goes:
/// - a backend for devices over all ranks, where `backend` is "auto" or its name and it opens;
/// - two levels (see ops/device/device_parts.h), where the group has them and `algorithm` asks for
///   them, or `backend` is "auto" and the backend for devices opens inside hosts only;
/// - else through the host.
/// Collective over the group. Errors: kUnsupported naming a rank and why it cannot, the same on
/// all, where a rank has no such device or `backend` insists on one that cannot be used.
Result<DeviceParts> open_device_parts(Devices& devices, const DeviceRequest& request,
                                      const GroupSpec& group, Exchange& exchange);

}  // namespace ronde
