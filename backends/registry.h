// The backends of one runtime: those that are available, and the reasons why others are not.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/ports/backend.h"

namespace ronde {

/// Says if `--backend auto` may select a backend, or only its name.
enum class Choice : std::uint8_t { kAutomatic, kOnRequest };

/// Holds backends in order of preference: the order in which they were added.
/// Threads: const members from any, once filled.
class Registry {
 public:
  /// Adds a backend; names must differ.
  void add(std::unique_ptr<Backend> backend, Choice choice);

  /// Adds the reason why this build or machine lacks a backend.
  void add_missing(std::string name, std::string reason, DeviceKind memory = DeviceKind::kCpu);

  /// The backend called `name`, or null. The registry owns it.
  [[nodiscard]] Backend* find(std::string_view name) const noexcept;

  /// The backends that `--backend wanted` ("auto", or a name) may use for a kind of memory, best
  /// first. The name of a backend for devices leaves host memory to the automatic ones.
  /// Errors: kUnavailable saying why one is missing, or that `wanted` is for host memory only;
  /// kInvalidArgument naming what is allowed.
  [[nodiscard]] Result<std::vector<Backend*>> candidates(
      std::string_view wanted, DeviceKind memory = DeviceKind::kCpu) const;

  /// True if `name` is a backend of that memory, there or missing.
  [[nodiscard]] bool serves(std::string_view name, DeviceKind memory) const noexcept;

  /// One line per backend of that memory for `group`: "shm: usable", or why not. May load modules.
  [[nodiscard]] std::vector<std::string> describe(const GroupSpec& group,
                                                  DeviceKind memory = DeviceKind::kCpu) const;

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<Backend> backend;  // null where it is missing
    Choice choice = Choice::kOnRequest;
    DeviceKind memory = DeviceKind::kCpu;
    std::string missing;
  };

  const Entry* entry(std::string_view name) const noexcept;
  std::string names() const;

  std::vector<Entry> entries_;
};

/// Returns `backend` with a check of groups that span hosts, where its data goes unencrypted.
/// `mode` is Config::encryption: "required" refuses them (kUnsupported), "on" warns once.
std::unique_ptr<Backend> guard_encryption(std::unique_ptr<Backend> backend,
                                          const std::string& mode);

}  // namespace ronde
