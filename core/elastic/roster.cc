#include "core/elastic/roster.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace ronde::elastic {

WorkerId Roster::add(const std::string& host) {
  workers_[++last_].host = host;
  return last_;
}

std::optional<RosterWorker> Roster::remove(WorkerId worker) {
  auto node = workers_.extract(worker);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

void Roster::remove_host(const std::string& host) {
  std::erase_if(workers_, [&](const Entry& entry) { return entry.second.host == host; });
}

RosterWorker* Roster::find(WorkerId worker) {
  const auto entry = workers_.find(worker);
  return entry == workers_.end() ? nullptr : &entry->second;
}

int Roster::count(State state) const {
  return static_cast<int>(std::ranges::count_if(
      workers_, [&](const Entry& entry) { return entry.second.state == state; }));
}

int Roster::count_on(const std::string& host) const {
  return static_cast<int>(std::ranges::count_if(
      workers_, [&](const Entry& entry) { return entry.second.host == host; }));
}

int Roster::count_staying() const {
  return static_cast<int>(
      std::ranges::count_if(workers_, [](const Entry& entry) { return entry.second.stays(); }));
}

CopyStep Roster::newest_that_stays() const {
  CopyStep newest = kNoCopy;
  for (const auto& [id, worker] : workers_) {
    if (worker.stays() && worker.state == State::kReady) {
      newest = std::max(newest, worker.state_step());
    }
  }
  return newest;
}

std::vector<WorkerId> Roster::members() const {
  std::vector<WorkerId> members;
  for (const auto& [id, worker] : workers_) {
    if (worker.state == State::kMember) members.push_back(id);
  }
  return members;
}

bool Roster::members_are_among(const std::set<WorkerId>& workers) const {
  const std::vector<WorkerId> all = members();
  return !all.empty() &&
         std::ranges::all_of(all, [&](const WorkerId id) { return workers.contains(id); });
}

void Roster::mark_surplus(const std::function<int(const std::string& host)>& slots) {
  std::map<std::string, int> places;
  for (auto& [id, worker] : workers_) {
    if (worker.asked_to_leave || worker.stopped) continue;
    const auto place = places.try_emplace(worker.host, slots(worker.host)).first;
    worker.surplus = --place->second < 0;
  }
}

std::vector<Roster::Entry*> Roster::ready_in_order(const std::vector<std::string>& hosts) {
  std::vector<Entry*> ready;
  for (Entry& entry : workers_) {
    if (entry.second.state == State::kReady) ready.push_back(&entry);
  }
  CopyStep newest = kNoCopy;
  for (const Entry* entry : ready) newest = std::max(newest, entry->second.inherited);
  // Copies of one commit are at most one step apart.
  const CopyStep least = newest == kNoCopy ? kNoCopy : std::max<CopyStep>(newest - 1, 0);
  std::ranges::sort(ready, {}, [&](const Entry* entry) {
    const RosterWorker& worker = entry->second;
    const int last = worker.last_rank < 0 ? std::numeric_limits<int>::max() : worker.last_rank;
    return std::tuple(!worker.holds_state, worker.inherited < least, last,
                      std::ranges::find(hosts, worker.host), entry->first);
  });
  return ready;
}

}  // namespace ronde::elastic
