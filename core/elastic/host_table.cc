#include "core/elastic/host_table.h"

#include <algorithm>

namespace ronde::elastic {
namespace {

constexpr std::chrono::seconds kFirstPause{1};  // of the second failure in a row
constexpr std::chrono::seconds kLongestPause{30};
/// Failures that are further apart are not in a row.
constexpr std::chrono::seconds kCalm{60};
/// Failures that are closer together have one cause.
constexpr std::chrono::milliseconds kTogether{500};

/// `first` doubled `times` times, `longest` at most.
Duration doubled(Duration first, int times, Duration longest) {
  Duration pause = first;
  for (int i = 0; i < times && pause < longest; ++i) pause *= 2;
  return std::min(pause, longest);
}

}  // namespace

void HostTable::set(const std::vector<HostPlaces>& hosts) {
  for (auto& [name, host] : hosts_) {
    const auto listed = std::ranges::find(hosts, name, &HostPlaces::name);
    const int slots = listed == hosts.end() ? 0 : listed->slots;
    if (slots != host.slots) host.left = 0;
    host.slots = slots;
  }
  names_.clear();
  for (const HostPlaces& host : hosts) {
    names_.push_back(host.name);
    hosts_[host.name].slots = host.slots;
  }
}

Duration HostTable::pause(int failures) const {
  if (pauses_.policy == FailurePolicy::kBlacklist) {
    return doubled(pauses_.cooldown_first, failures - 1, pauses_.cooldown_longest);
  }
  return failures < 2 ? Duration{0} : doubled(kFirstPause, failures - 2, kLongestPause);
}

void HostTable::on_failure(const std::string& name, TimePoint time) {
  Host& host = hosts_[name];
  if (host.failures > 0 && time - host.last_failure < kTogether) return;
  if (time - host.last_failure > kCalm + pause(host.failures)) host.failures = 0;
  ++host.failures;
  host.last_failure = time;
  const bool for_ever = pauses_.policy == FailurePolicy::kBlacklist &&
                        pauses_.cooldown_first == std::chrono::milliseconds(0);
  host.paused_until = for_ever ? kForever : time + pause(host.failures);
}

void HostTable::on_lost(const std::string& name, TimePoint time) {
  on_failure(name, time);
  Host& host = hosts_[name];
  host.paused_until = std::max(host.paused_until, time + Duration(kFirstPause));
}

void HostTable::on_left(const std::string& host) { ++hosts_[host].left; }

int HostTable::slots(const std::string& name, TimePoint time) const {
  const auto host = hosts_.find(name);
  if (host == hosts_.end() || blacklisted(name, time)) return 0;
  return std::max(0, host->second.slots - host->second.left);
}

bool HostTable::may_start(const std::string& name, TimePoint time) const {
  return slots(name, time) > 0 && time >= paused_until(name);
}

bool HostTable::blacklisted(const std::string& name, TimePoint time) const {
  return pauses_.policy == FailurePolicy::kBlacklist && time < paused_until(name);
}

TimePoint HostTable::paused_until(const std::string& name) const {
  const auto host = hosts_.find(name);
  return host == hosts_.end() ? TimePoint{} : host->second.paused_until;
}

TimePoint HostTable::next_change(TimePoint time) const {
  TimePoint next = kForever;
  for (const auto& [name, host] : hosts_) {
    if (host.slots > 0 && host.paused_until > time) next = std::min(next, host.paused_until);
  }
  return next;
}

}  // namespace ronde::elastic
