#include "bindings/cli/launch/elastic/job_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace ronde {

std::string hosts_text(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const HostSlots& host : hosts) names.push_back(fmt::format("{}:{}", host.name, host.slots));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

JobHosts::Update JobHosts::set(std::vector<HostSlots> hosts) {
  const bool same = std::exchange(hosts_, std::move(hosts)) == hosts_;
  if (started_) return {!same, same ? "" : "the hosts are now " + hosts_text(hosts_)};
  int total = 0;
  for (const HostSlots& host : hosts_) total += host.slots;
  started_ = total >= start_slots_;
  if (started_) return {true, ""};
  if (same && total > 0) return {};
  return {false, fmt::format("waiting for {} slots to start: the hosts have {} ({})", start_slots_,
                             total, hosts_text(hosts_))};
}

std::vector<elastic::HostPlaces> JobHosts::places() const {
  std::vector<elastic::HostPlaces> places;
  places.reserve(hosts_.size());
  for (const HostSlots& host : hosts_) places.push_back({host.name, host.slots});
  return places;
}

int JobHosts::slots(const std::string& name) const {
  const auto host = std::ranges::find(hosts_, name, &HostSlots::name);
  return host == hosts_.end() ? 0 : host->slots;
}

}  // namespace ronde
