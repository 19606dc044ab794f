#include "backends/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ronde {

void Registry::add(std::unique_ptr<Backend> backend, Choice choice) {
  std::string name(backend->name());
  entries_.push_back({std::move(name), std::move(backend), choice, ""});
}

void Registry::add_missing(std::string name, std::string reason) {
  entries_.push_back({std::move(name), nullptr, Choice::kOnRequest, std::move(reason)});
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

Result<std::vector<Backend*>> Registry::candidates(std::string_view wanted) const {
  std::vector<Backend*> chosen;
  for (const Entry& each : entries_) {
    const bool automatic = wanted == "auto" && each.choice == Choice::kAutomatic;
    if (each.backend && (automatic || each.name == wanted)) chosen.push_back(each.backend.get());
  }
  if (!chosen.empty()) return chosen;
  if (const Entry* found = entry(wanted); found != nullptr) {
    return Status(Code::kUnavailable, fmt::format("backend {}: {}", found->name, found->missing));
  }
  return Status(Code::kInvalidArgument,
                fmt::format("backend {} is not known; allowed: auto{}", wanted, names()));
}

std::string Registry::names() const {
  std::string text;
  for (const Entry& each : entries_) text += ", " + each.name;
  return text;
}

std::vector<std::string> Registry::describe(const GroupSpec& group) const {
  std::vector<std::string> lines;
  for (const Entry& each : entries_) {
    const Status usable =
        each.backend ? each.backend->viable(group) : Status(Code::kUnavailable, each.missing);
    const bool asked = each.choice == Choice::kOnRequest;
    lines.push_back(fmt::format("{}: {}{}", each.name, usable.ok() ? "usable" : usable.message(),
                                usable.ok() && asked ? " (when asked for by name)" : ""));
  }
  return lines;
}

}  // namespace ronde
