// The hosts of an elastic job: when each may get a new worker, their trials, and the copies of the
// state that their agents keep.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/clock.h"

namespace ronde::elastic {

/// Decides on the place of a worker that failed.
enum class FailurePolicy : std::uint8_t {
  kRespawn,    ///< A new worker starts on the same host, after growing pauses.
  kBlacklist,  ///< The host gets no workers until its cool-down is over.
};

/// A host and the number of workers that it may run.
struct HostPlaces {
  std::string name;
  int slots = 0;

  bool operator==(const HostPlaces&) const = default;
};

/// The pauses of a host whose workers failed.
struct HostPauses {
  FailurePolicy policy = FailurePolicy::kRespawn;
  /// The pause of a blacklisted host, doubled at each failure up to the longest. Zero: for ever.
  std::chrono::milliseconds cooldown_first{0};
  std::chrono::milliseconds cooldown_longest{0};
};

/// The hosts by name. Threads: one.
class HostTable {
 public:
  explicit HostTable(const HostPauses& pauses) : pauses_(pauses) {}

  /// The hosts that there are from now on. Failures of hosts that stay are remembered.
  void set(const std::vector<HostPlaces>& hosts);
  /// A worker of this host has failed.
  void on_failure(const std::string& host, TimePoint time);
  /// The host itself cannot be reached: a respawn waits, too.
  void on_lost(const std::string& host, TimePoint time);
  /// A worker of this host has left: its place stays empty until the host's slots change.
  void on_left(const std::string& host);

  /// Names in the order of set().
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  /// Workers that the host may have now; 0 if it is not listed, or is blacklisted.
  [[nodiscard]] int slots(const std::string& host, TimePoint time) const;
  /// slots() of this time, for one host after another.
  [[nodiscard]] auto slots_at(TimePoint time) const {
    return [this, time](const std::string& host) { return slots(host, time); };
  }
  /// True if a new worker may start there at once.
  [[nodiscard]] bool may_start(const std::string& host, TimePoint time) const;
  [[nodiscard]] bool blacklisted(const std::string& host, TimePoint time) const;
  /// The end of the pause or cool-down after the last failure.
  [[nodiscard]] TimePoint paused_until(const std::string& host) const;
  /// The next end of a pause; kForever if there is none.
  [[nodiscard]] TimePoint next_change(TimePoint time) const;

 private:
  struct Host {
    int slots = 0;
    int left = 0;      // places of workers that have left
    int failures = 0;  // in a row
    TimePoint last_failure{};
    TimePoint paused_until{};
  };
  [[nodiscard]] Duration pause(int failures) const;

  const HostPauses pauses_;
  std::vector<std::string> names_;
  std::map<std::string, Host> hosts_;
};

/// Hosts that are tried before their workers are let into a job that runs: a worker of a host that
/// the others cannot reach would stop all of them for the time of a
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

  [[nodiscard]] bool passed(const std::string& host) const { return check_of(host).passed; }
  [[nodiscard]] bool awaited(const std::string& host) const { return check_of(host).awaited; }

 private:
  struct Check {
    bool passed = false;
    bool awaited = false;
  };
  [[nodiscard]] Check check_of(const std::string& host) const {
    const auto check = checks_.find(host);
    return check == checks_.end() ? Check() : check->second;
  }
  std::map<std::string, Check> checks_;
};

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
