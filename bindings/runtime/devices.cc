#include "bindings/runtime/devices.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "backends/builtin.h"
#include "core/base/log.h"

namespace ronde {
namespace {

/// The first objection, naming its rank; empty where there is none.
std::string objection(const std::vector<std::string>& answers, const GroupSpec& group) {
  for (std::size_t r = 0; r < answers.size(); ++r) {
    if (!answers[r].empty()) return fmt::format("rank {}: {}", group.ranks[r], answers[r]);
  }
  return {};
}

/// Why this rank cannot use the device data plane; empty where it can.
Status plane_viable(Devices& devices, const std::string& backend, const GroupSpec& group) {
  if (group.size() == 1) return {Code::kUnavailable, "it is alone"};
  RONDE_ASSIGN_OR_RETURN(const auto plane, devices.plane());
  if (backend == "auto" || backend == plane->name()) return plane->viable(group);
  return {Code::kUnavailable, fmt::format("--backend {} was asked for", backend)};
}

}  // namespace

DeviceLibraries builtin_device_libraries() {
  return {.accelerator = &load_builtin_accelerator, .plane = &load_builtin_device_plane};
}

Result<std::shared_ptr<DeviceOps>> Devices::open(int index) {
  const MutexLock lock(mutex_);
  if (!accelerator_) accelerator_.emplace(libraries_.accelerator());
  RONDE_RETURN_IF_ERROR(accelerator_->status());
  return accelerator_->value()->open(index);
}

Result<std::shared_ptr<DevicePlane>> Devices::plane() {
  const MutexLock lock(mutex_);
  if (!plane_) plane_.emplace(libraries_.plane());
  return *plane_;
}

std::shared_ptr<LaunchChain> Devices::chain(int index) {
  const MutexLock lock(mutex_);
  std::shared_ptr<LaunchChain>& chain = chains_[index];
  if (!chain) chain = std::make_shared<LaunchChain>();
  return chain;
}

bool Devices::claim(SetId set, int index) {
  const MutexLock lock(mutex_);
  return claimed_.emplace(set, index).first->second == index;
}

Result<DeviceParts> open_device_parts(Devices& devices, const std::string& backend, int index,
                                      const GroupSpec& group, Exchange& exchange) {
  auto device = devices.open(index);
  RONDE_ASSIGN_OR_RETURN(const auto opened, exchange.allgather(device.status().message()));
  if (const std::string reason = objection(opened, group); !reason.empty()) {
    return Status(Code::kUnsupported, reason);
  }
  const Status mine = plane_viable(devices, backend, group);
  RONDE_ASSIGN_OR_RETURN(const auto viable, exchange.allgather(mine.message()));
  const std::string reason = objection(viable, group);
  if (reason.empty()) {
    RONDE_ASSIGN_OR_RETURN(const auto plane, devices.plane());
    RONDE_ASSIGN_OR_RETURN(auto opened_plane, plane->open(group, exchange, *device));
    return DeviceParts{std::move(device).value(), std::move(opened_plane), devices.chain(index)};
  }
  if (backend == "nccl" && group.size() > 1) {
    return Status(Code::kUnsupported, fmt::format("--backend nccl cannot be used: {}", reason));
  }
  log(LogLevel::kInfo, "tensors in device memory pass through the host, as {}", reason);
  return DeviceParts{std::move(device).value(), nullptr};
}

}  // namespace ronde
