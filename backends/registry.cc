#include "backends/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/base/log.h"

namespace ronde {
namespace {

class GuardedBackend final : public Backend {
 public:
  GuardedBackend(std::unique_ptr<Backend> backend, bool refuses)
      : backend_(std::move(backend)), refuses_(refuses) {}

  std::string_view name() const noexcept override { return backend_->name(); }
  DeviceKind memory() const noexcept override { return backend_->memory(); }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    return backend_->allocate(bytes);
  }

  Status viable(const GroupSpec& group) override {
    if (refuses_ && !group.on_one_host()) return refusal();
    return backend_->viable(group);
  }

  Result<std::unique_ptr<Communicator>> open(const GroupSpec& group, Exchange& exchange) override {
    if (!group.on_one_host()) {
      if (refuses_) return refusal();
      if (group.rank == 0 && !warned_.exchange(true)) warn();
    }
    return backend_->open(group, exchange);
  }

 private:
  [[nodiscard]] Status refusal() const {
    return {Code::kUnsupported,
            fmt::format("{} does not encrypt what it sends between hosts, which "
                        "RONDE_ENCRYPTION=required asks for; use RONDE_BACKEND=auto or tcp, or "
                        "allow it by RONDE_ENCRYPTION=on",
                        name())};
  }
  void warn() const {
    log(LogLevel::kWarning,
        "{} does not encrypt what it sends between hosts, in spite of RONDE_ENCRYPTION=on; "
        "RONDE_BACKEND=tcp does, and RONDE_ENCRYPTION=required refuses {}",
        name(), name());
  }

  const std::unique_ptr<Backend> backend_;
  const bool refuses_;
  std::atomic<bool> warned_{false};
};

}  // namespace

void Registry::add(std::unique_ptr<Backend> backend, Choice choice) {
  std::string name(backend->name());
  const DeviceKind memory = backend->memory();
  entries_.push_back({std::move(name), std::move(backend), choice, memory, ""});
}

void Registry::add_missing(std::string name, std::string reason, DeviceKind memory) {
  entries_.push_back({std::move(name), nullptr, Choice::kOnRequest, memory, std::move(reason)});
}

const Registry::Entry* Registry::entry(std::string_view name) const noexcept {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& each) { return each.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

Backend* Registry::find(std::string_view name) const noexcept {
  const Entry* found = entry(name);
  return found == nullptr ? nullptr : found->backend.get();
}

Result<std::vector<Backend*>> Registry::candidates(std::string_view wanted,
                                                   DeviceKind memory) const {
  const Entry* const named = entry(wanted);
  if (named == nullptr && wanted != "auto") {
    return Status(Code::kInvalidArgument,
                  fmt::format("backend {} is not known; allowed: auto{}", wanted, names()));
  }
  const bool host = memory == DeviceKind::kCpu;
  if (named != nullptr && named->memory != memory && !host) {
    return Status(Code::kUnavailable, fmt::format("--backend {} was asked for", wanted));
  }
  const bool automatic = named == nullptr || named->memory != memory;
  std::vector<Backend*> chosen;
  std::string missing;
  for (const Entry& each : entries_) {
    if (each.memory != memory || !(automatic || &each == named)) continue;
    if (!each.backend) {
      missing +=
          fmt::format("{}backend {}: {}", missing.empty() ? "" : "; ", each.name, each.missing);
    } else if (!automatic || each.choice == Choice::kAutomatic) {
      chosen.push_back(each.backend.get());
    }
  }
  if (!chosen.empty()) return chosen;
  return Status(Code::kUnavailable, missing.empty() ? "no backend is there" : missing);
}

bool Registry::serves(std::string_view name, DeviceKind memory) const noexcept {
  const Entry* const found = entry(name);
  return found != nullptr && found->memory == memory;
}

std::string Registry::names() const {
  std::string text;
  for (const Entry& each : entries_) text += ", " + each.name;
  return text;
}

std::vector<std::string> Registry::describe(const GroupSpec& group, DeviceKind memory) const {
  std::vector<std::string> lines;
  for (const Entry& each : entries_) {
    if (each.memory != memory) continue;
    const Status usable =
        each.backend ? each.backend->viable(group) : Status(Code::kUnavailable, each.missing);
    const bool asked = each.choice == Choice::kOnRequest;
    lines.push_back(fmt::format("{}: {}{}", each.name, usable.ok() ? "usable" : usable.message(),
                                usable.ok() && asked ? " (when asked for by name)" : ""));
  }
  return lines;
}

std::unique_ptr<Backend> guard_encryption(std::unique_ptr<Backend> backend,
                                          const std::string& mode) {
  if (mode == "off") return backend;
  return std::make_unique<GuardedBackend>(std::move(backend), mode == "required");
}

}  // namespace ronde
