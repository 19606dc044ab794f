// Hosts that are tried before their workers are let into a job that runs.
#pragma once

#include <map>
#include <string>

namespace ronde::elastic {

/// A worker of a host that the others cannot reach would stop all of them for the time of a
/// rendezvous. So such a host is tried beside the epoch. Threads: one.
class HostChecks {
 public:
  /// True if a trial of the host is to begin now. `awaited`: its workers will be.
  bool begin(const std::string& host, bool awaited) {
    const auto [check, is_new] = checks_.try_emplace(host);
    check->second.awaited |= awaited;
    return is_new;
  }
  /// The host reaches the others: a worker may start there.
  void pass(const std::string& host) {
    const auto check = checks_.find(host);
    if (check != checks_.end()) check->second.passed = true;
  }
  void forget(const std::string& host) { checks_.erase(host); }

  [[nodiscard]] bool passed(const std::string& host) const {
    const auto check = checks_.find(host);
    return check != checks_.end() && check->second.passed;
  }
  [[nodiscard]] bool awaited(const std::string& host) const {
    const auto check = checks_.find(host);
    return check != checks_.end() && check->second.awaited;
  }

 private:
  struct Check {
    bool passed = false;
    bool awaited = false;
  };
  std::map<std::string, Check> checks_;
};

}  // namespace ronde::elastic
