// The hosts of an elastic job, and when each may get a new worker.
#pragma once

#include <chrono>
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

}  // namespace ronde::elastic
