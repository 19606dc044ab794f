#include "bindings/runtime/devices.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "backends/builtin.h"
#include "core/base/log.h"
#include "ops/selection/selector.h"

namespace ronde {
namespace {

/// The first objection, naming its rank; empty where there is none.
std::string objection(const std::vector<std::string>& answers, const GroupSpec& group) {
  for (std::size_t r = 0; r < answers.size(); ++r) {
    if (!answers[r].empty()) return fmt::format("rank {}: {}", group.ranks[r], answers[r]);
  }
  return {};
}

/// Whether a backend of this name may be the device data plane itself.
bool may_span(const std::string& backend) { return backend == "auto" || backend == "nccl"; }

/// Whether the user asks for two levels, and the group has them.
bool asks_for_levels(const DeviceRequest& request, const HostLayout& layout) {
  return request.algorithm == kHierarchicalAlgorithm && layout.has_levels();
}

/// Why this rank cannot use the device data plane at all; ok where it can.
Status plane_viable(Devices& devices, const DeviceRequest& request, const GroupSpec& group) {
  if (group.size() == 1) return {Code::kUnavailable, "it is alone"};
  RONDE_ASSIGN_OR_RETURN(const auto plane, devices.plane());
  if (may_span(request.backend) || asks_for_levels(request, host_layout(group))) {
    return plane->viable(group);
  }
  return {Code::kUnavailable, fmt::format("--backend {} was asked for", request.backend)};
}

/// What came of opening the device data plane.
struct DeviceAttempt {
  std::unique_ptr<DeviceGroup> opened;  ///< On all ranks or on none.
  std::string objection;                ///< Of the first rank where it failed; the same on all.
};

/// What open_device_parts() works with.
struct Opening {
  Devices& devices;
  const DeviceRequest& request;
  const GroupSpec& group;
  Exchange& exchange;
  std::shared_ptr<DeviceOps> device;

  /// Opens the plane for `members`, to which this rank belongs, and learns whether all ranks could.
  [[nodiscard]] Result<DeviceAttempt> attempt(const GroupSpec& members, Exchange& theirs) const {
    RONDE_ASSIGN_OR_RETURN(const auto plane, devices.plane());
    auto opened = plane->open(members, theirs, device);
    if (group.abort && group.abort->aborted()) return group.abort->status();
    RONDE_ASSIGN_OR_RETURN(const auto answers, exchange.allgather(opened.status().message()));
    DeviceAttempt made{nullptr, objection(answers, group)};
    if (made.objection.empty()) made.opened = std::move(opened).value();
    return made;
  }

  /// Fills in what opens; returns what stands in the way of the plane over all ranks, or nothing.
  Result<std::string> open(DeviceParts& parts) const {
    std::string reason = fmt::format("--backend {} was asked for", request.backend);
    if (may_span(request.backend)) {
      RONDE_ASSIGN_OR_RETURN(DeviceAttempt all, attempt(group, exchange));
      parts.plane = std::move(all.opened);
      reason = std::move(all.objection);
    }
    const HostLayout layout = host_layout(group);
    const bool asked = asks_for_levels(request, layout);
    const bool instead = !parts.plane && request.backend == "auto" && layout.has_levels();
    if (!asked && !instead) return reason;
    const GroupSpec host = group_inside(group, layout);
    const auto inside_exchange = request.inside(host.key, host.ranks);
    RONDE_ASSIGN_OR_RETURN(DeviceAttempt inside, attempt(host, *inside_exchange));
    parts.inside = std::move(inside.opened);
    parts.layout = layout;
    if (parts.inside) {
      log(LogLevel::kInfo, "allreduces in device memory go in two levels{}{}", asked ? "" : ", as ",
          asked ? "" : reason);
      reason.clear();
    }
    return reason;
  }
};

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

Result<DeviceParts> open_device_parts(Devices& devices, const DeviceRequest& request,
                                      const GroupSpec& group, Exchange& exchange) {
  auto device = devices.open(request.index);
  RONDE_ASSIGN_OR_RETURN(const auto opened, exchange.allgather(device.status().message()));
  if (const std::string reason = objection(opened, group); !reason.empty()) {
    return Status(Code::kUnsupported, reason);
  }
  const Status mine = plane_viable(devices, request, group);
  RONDE_ASSIGN_OR_RETURN(const auto viable, exchange.allgather(mine.message()));
  std::string reason = objection(viable, group);
  DeviceParts parts{.device = std::move(device).value(), .plane = nullptr};
  if (reason.empty()) {
    const Opening opening{devices, request, group, exchange, parts.device};
    RONDE_ASSIGN_OR_RETURN(reason, opening.open(parts));
  }
  if (parts.plane || parts.inside) {
    parts.chain = devices.chain(request.index);
    return parts;
  }
  if (request.backend == "nccl" && group.size() > 1) {
    return Status(Code::kUnsupported, fmt::format("--backend nccl cannot be used: {}", reason));
  }
  log(LogLevel::kInfo, "tensors in device memory pass through the host, as {}", reason);
  return parts;
}

}  // namespace ronde
