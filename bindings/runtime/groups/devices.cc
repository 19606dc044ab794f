#include "bindings/runtime/groups/devices.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "backends/builtin.h"
#include "bindings/runtime/groups/agreements.h"
#include "core/base/log.h"
#include "ops/selection/path.h"
#include "ops/selection/selector.h"

namespace ronde {
namespace {

/// True if the user asks for two levels, and the group has them.
bool asks_for_levels(const DeviceRequest& request, const HostLayout& layout) {
  return request.algorithm == kHierarchicalAlgorithm && layout.has_levels();
}

/// The backend for devices that the user's choice leads to, over all ranks or inside hosts.
/// Errors: kUnavailable saying why there is none.
Result<Backend*> backend_of(const DeviceRequest& request, const GroupSpec& group) {
  const bool inside = asks_for_levels(request, host_layout(group));
  auto candidates = request.registry.candidates(request.backend, DeviceKind::kCuda);
  if (!candidates.ok() && inside)
    candidates = request.registry.candidates("auto", DeviceKind::kCuda);
  RONDE_RETURN_IF_ERROR(candidates.status());
  return candidates->front();
}

/// Why this rank cannot use a backend for devices at all; ok where it can.
Status viable(const DeviceRequest& request, const GroupSpec& group) {
  if (group.size() == 1) return {Code::kUnavailable, "it is alone"};
  RONDE_ASSIGN_OR_RETURN(Backend * backend, backend_of(request, group));
  return backend->viable(group);
}

/// Why this process cannot use a backend for devices.
Status usable(Devices& devices, const Registry& registry, const std::string& backend,
              const GroupSpec& group) {
  RONDE_ASSIGN_OR_RETURN(const auto candidates, registry.candidates(backend, DeviceKind::kCuda));
  const Status viable = candidates.front()->viable(group);
  return (viable.ok() ? devices.count().status() : viable).with_context("backend " + backend);
}

/// The outcome of opening a communicator for devices.
struct DeviceAttempt {
  std::unique_ptr<Communicator> opened;  ///< On all ranks or on none.
  std::string objection;                 ///< The first failing rank's; the same on all.
};

/// One call of open_device_parts().
struct Opening {
  const DeviceRequest& request;
  const GroupSpec& group;  ///< On this rank's device.
  Exchange& exchange;

  /// Opens a communicator of `members`, to which this rank belongs, and learns whether all ranks
  /// could.
  [[nodiscard]] Result<DeviceAttempt> attempt(const GroupSpec& members, Exchange& theirs) const {
    RONDE_ASSIGN_OR_RETURN(Backend * backend, backend_of(request, group));
    auto opened = backend->open(members, theirs);
    if (group.abort && group.abort->aborted()) return group.abort->status();
    DeviceAttempt made;
    RONDE_ASSIGN_OR_RETURN(made.objection, first_objection(exchange, group.ranks, opened.status()));
    if (made.objection.empty()) made.opened = std::move(opened).value();
    return made;
  }

  /// Opens the communicators that can be opened. Returns why none spans all ranks, or nothing.
  Result<std::string> open(DeviceParts& parts) const {
    std::string reason = fmt::format("--backend {} was asked for", request.backend);
    if (request.registry.candidates(request.backend, DeviceKind::kCuda).ok()) {
      RONDE_ASSIGN_OR_RETURN(DeviceAttempt all, attempt(group, exchange));
      parts.whole = std::move(all.opened);
      reason = std::move(all.objection);
    }
    const HostLayout layout = host_layout(group);
    const bool asked = asks_for_levels(request, layout);
    const LevelQuestion question{.has_levels = layout.has_levels(),
                                 .automatic = request.backend == "auto",
                                 .algorithm = request.algorithm};
    if (!wants_device_levels(question, parts.whole != nullptr)) return reason;
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

DeviceLibraries builtin_device_libraries() { return {.accelerator = &load_builtin_accelerator}; }

Result<std::shared_ptr<Accelerator>> Devices::accelerator() {
  if (!accelerator_) accelerator_.emplace(libraries_.accelerator());
  return *accelerator_;
}

Result<std::shared_ptr<DeviceOps>> Devices::open(int index) {
  const MutexLock lock(mutex_);
  RONDE_ASSIGN_OR_RETURN(const auto found, accelerator());
  return found->open(index);
}

Result<int> Devices::count() {
  const MutexLock lock(mutex_);
  RONDE_ASSIGN_OR_RETURN(const auto found, accelerator());
  return found->count();
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

Status check_device_backend(Devices& devices, const Registry& registry, const std::string& backend,
                            const GroupSpec& group) {
  if (!registry.serves(backend, DeviceKind::kCuda)) return {};
  const Status status = usable(devices, registry, backend, group);
  if (status.ok()) return {};
  return {Code::kUnavailable,
          fmt::format("{}; --backend or RONDE_BACKEND asks for it; auto takes the best that is "
                      "there",
                      status.message())};
}

Result<DeviceParts> open_device_parts(Devices& devices, const DeviceRequest& request,
                                      const GroupSpec& group, Exchange& exchange) {
  auto device = devices.open(request.index);
  RONDE_ASSIGN_OR_RETURN(std::string reason,
                         first_objection(exchange, group.ranks, device.status()));
  if (!reason.empty()) return Status(Code::kUnsupported, reason);
  GroupSpec on_device = group;
  on_device.device = std::move(device).value();
  RONDE_ASSIGN_OR_RETURN(reason,
                         first_objection(exchange, group.ranks, viable(request, on_device)));
  DeviceParts parts{.device = on_device.device, .whole = nullptr};
  if (reason.empty()) {
    const Opening opening{request, on_device, exchange};
    RONDE_ASSIGN_OR_RETURN(reason, opening.open(parts));
  }
  if (parts.whole || parts.inside) {
    parts.chain = devices.chain(request.index);
    return parts;
  }
  // Staging may not replace a backend for devices that was asked for.
  if (request.registry.serves(request.backend, DeviceKind::kCuda) && group.size() > 1) {
    return Status(Code::kUnsupported,
                  fmt::format("--backend {} cannot be used: {}", request.backend, reason));
  }
  log(LogLevel::kInfo, "tensors in device memory pass through the host, as {}", reason);
  return parts;
}

}  // namespace ronde
