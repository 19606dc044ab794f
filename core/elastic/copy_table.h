// The copies of the state that hosts' agents keep of workers that have ended.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ronde::elastic {

/// The step of a copy; kNoCopy: there is none.
using CopyStep = std::int64_t;
inline constexpr CopyStep kNoCopy = -1;

/// Knows the newest step of each ended worker's copies, by host. An agent gives those of the newest
/// step to the next worker that it starts. Threads: one.
class CopyTable {
 public:
  void add(const std::string& host, CopyStep step) {
    if (step != kNoCopy) hosts_[host].push_back(step);
  }
  /// A worker of this host was given copies of this step. kNoCopy: there were none.
  void take(const std::string& host, CopyStep step) {
    if (step == kNoCopy) return remove_host(host);
    auto& steps = hosts_[host];
    const auto taken = std::ranges::find(steps, step);
    if (taken != steps.end()) steps.erase(taken);
  }
  void remove_host(const std::string& host) { hosts_.erase(host); }

  /// kNoCopy without one.
  [[nodiscard]] CopyStep newest_of(const std::string& host) const {
    const auto found = hosts_.find(host);
    if (found == hosts_.end() || found->second.empty()) return kNoCopy;
    return *std::ranges::max_element(found->second);
  }

 private:
  std::map<std::string, std::vector<CopyStep>> hosts_;
};

}  // namespace ronde::elastic
