#include "backends/encryption_guard.h"

#include <fmt/format.h>

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

std::unique_ptr<Backend> guard_encryption(std::unique_ptr<Backend> backend,
                                          const std::string& mode) {
  if (mode == "off") return backend;
  return std::make_unique<GuardedBackend>(std::move(backend), mode == "required");
}

}  // namespace ronde
