#include "core/elastic/director.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

namespace ronde::elastic {
namespace {

/// From the moment when only suspects are missing: a suspect that lives may still become ready.
constexpr std::chrono::seconds kSuspectGrace{1};
/// Joiners that come within this time of each other share one epoch.
constexpr std::chrono::seconds kJoinWindow{1};

std::string workers_text(std::size_t count) {
  return fmt::format("{} worker{}", count, count == 1 ? "" : "s");
}

}  // namespace

int Director::count(State state) const {
  return static_cast<int>(std::ranges::count_if(
      workers_, [&](const Entry& entry) { return entry.second.state == state; }));
}

int Director::living_on(const std::string& host) const {
  return static_cast<int>(std::ranges::count_if(
      workers_, [&](const Entry& entry) { return entry.second.host == host; }));
}

Director::Worker* Director::find(WorkerId worker) {
  const auto entry = workers_.find(worker);
  return entry == workers_.end() ? nullptr : &entry->second;
}

// Events.

void Director::set_hosts(const std::vector<HostPlaces>& hosts, TimePoint time) {
  if (started_ == kForever) started_ = time;
  hosts_.set(hosts);
  settle(time);
}

void Director::on_ready(WorkerId id, const ReadyNote& note, TimePoint time) {
  Worker* worker = find(id);
  if (worker == nullptr || worker->state == State::kFinished) return;
  worker->state = State::kReady;
  worker->ready = note;
  worker->holds_state = note.holds_state;
  if (note.last_epoch == epoch_ && epoch_ > 0) {
    closing_ = true;
    suspects_.insert(note.suspects.begin(), note.suspects.end());
  }
  if (cause_.empty() && !note.why.empty()) cause_ = fmt::format("worker {}: {}", id, note.why);
  settle_epoch(time);
}

void Director::on_holds(WorkerId id) {
  Worker* worker = find(id);
  if (worker == nullptr) return;
  worker->holds_state = true;
  state_exists_ = true;
}

void Director::on_leaving(WorkerId id, TimePoint time) {
  Worker* worker = find(id);
  if (worker == nullptr || worker->asked_to_leave) return;
  worker->asked_to_leave = true;
  hosts_.on_left(worker->host);
  settle(time);
}

void Director::on_finished(WorkerId id, TimePoint time) {
  Worker* worker = find(id);
  if (worker == nullptr) return;
  worker->state = State::kFinished;
  finished_ = true;
  settle(time);
}

void Director::on_ended(WorkerId id, const WorkerEnd& end, TimePoint time) {
  const auto entry = workers_.find(id);
  if (entry == workers_.end()) return;
  const Worker gone = std::move(entry->second);
  workers_.erase(entry);
  if (end.exit_status == 0) {
    const bool expected = gone.leaving() || gone.stopped;
    if (!expected) finished_ = true;
  } else if (!gone.stopped) {
    take_failure(id, gone, end, time);
  }
  settle(time);
}

void Director::take_failure(WorkerId id, const Worker& gone, const WorkerEnd& end, TimePoint time) {
  const std::string text = fmt::format("worker {} {}", id, end.text);
  hosts_.on_failure(gone.host, time);
  if (failed_) return;
  if (gone.state == State::kMember || gone.state == State::kReady) cause_ = text;
  closing_ |= gone.state == State::kMember;
  last_failure_ = {end.exit_status, text};
  if (finished_ && exit_status_ == 0) exit_status_ = end.exit_status;
  // An exception before the first epoch, or on the last member, would only come again.
  const bool by_itself = end.exit_status < 128;
  const bool alone = count(State::kMember) + count(State::kReady) == 0;
  if (by_itself && !finished_ && (epoch_ == 0 || alone)) fail(end.exit_status, text);
}

void Director::on_host_lost(const std::string& host, const std::string& why, TimePoint time) {
  hosts_.on_lost(host, time);
  const std::string text = fmt::format("host {} is lost: {}", host, why);
  closing_ = true;
  std::erase_if(workers_, [&](const Entry& entry) { return entry.second.host == host; });
  cause_ = text;
  last_failure_ = {1, text};
  report(text);
  settle(time);
}

// Decisions.

void Director::settle(TimePoint time) {
  if (!ending()) {
    mark_surplus(time);
    start_workers(time);
  }
  settle_epoch(time);
}

void Director::settle_epoch(TimePoint time) {
  if (!ending()) {
    stop_suspects(time);
    try_epoch(time);
    send_change(time);
  }
  if (ending()) end_leftovers();
}

/// Workers beyond their host's slots are to leave: the newest of a host first. They stay if others
/// make room before they have left.
void Director::mark_surplus(TimePoint time) {
  std::map<std::string, int> places;
  for (auto& [id, worker] : workers_) {
    if (worker.asked_to_leave || worker.stopped) continue;
    const auto place = places.try_emplace(worker.host, hosts_.slots(worker.host, time)).first;
    worker.surplus = --place->second < 0;
  }
}

void Director::start_workers(TimePoint time) {
  int wanted = options_.max_workers;
  if (wanted == 0) {
    for (const std::string& host : hosts_.names()) wanted += hosts_.slots(host, time);
  }
  wanted -= static_cast<int>(std::ranges::count_if(workers_, [](const Entry& entry) {
    return !entry.second.leaving() && !entry.second.stopped;
  }));
  for (const std::string& host : hosts_.names()) {
    if (!hosts_.may_start(host, time)) continue;
    for (int room = hosts_.slots(host, time) - living_on(host); room > 0 && wanted > 0; --room) {
      workers_[++last_worker_].host = host;
      commands_.emplace_back(StartWorker{last_worker_, host});
      --wanted;
    }
  }
}

/// True while some member of the epoch may still work in it.
bool Director::is_open() const {
  return std::ranges::any_of(
      workers_, [](const Entry& entry) { return entry.second.state == State::kMember; });
}

/// Members that all others have lost never become ready: they are frozen or cut off.
void Director::stop_suspects(TimePoint time) {
  const bool only_suspects =
      !suspects_.empty() && is_open() && std::ranges::all_of(workers_, [&](const Entry& entry) {
        return entry.second.state != State::kMember || suspects_.contains(entry.first);
      });
  if (!only_suspects) {
    suspects_since_ = kForever;
    return;
  }
  suspects_since_ = std::min(suspects_since_, time);
  if (time - suspects_since_ < kSuspectGrace) return;
  for (Entry& entry : workers_) {
    if (entry.second.state != State::kMember) continue;
    report(fmt::format("worker {} is stopped: the others have lost it", entry.first));
    stop(entry);
  }
}

/// Its end is awaited, but nothing else of it.
void Director::stop(Entry& entry) {
  if (entry.second.stopped) return;
  entry.second.stopped = true;
  entry.second.state = State::kFinished;
  commands_.emplace_back(StopWorker{entry.first});
}

void Director::dismiss(Entry& entry, bool failed, const std::string& why) {
  entry.second.stopped = true;
  entry.second.state = State::kFinished;
  commands_.emplace_back(DismissWorker{entry.first, {failed, why}});
}

/// Makes the epoch's members stop at their next commit if workers wait to join or are to leave.
void Director::send_change(TimePoint time) {
  if (closing_ || epoch_ == 0 || changed_epoch_ == epoch_) return;
  std::vector<WorkerId> members;
  bool added = false, removed = false, starting = false;
  for (const auto& [id, worker] : workers_) {
    if (worker.state == State::kMember) members.push_back(id);
    removed |= worker.state == State::kMember && worker.leaving();
    added |= worker.state == State::kReady && worker.ready.last_epoch != epoch_;
    starting |= worker.state == State::kStarting;
  }
  if (!added) joiner_since_ = kForever;
  if (added) joiner_since_ = std::min(joiner_since_, time);
  if (starting && added && time - joiner_since_ < kJoinWindow) added = false;
  if (!added && !removed) return;
  changed_epoch_ = epoch_;
  const Change change = added && removed ? Change::kMixed
                        : added          ? Change::kAdded
                                         : Change::kRemoved;
  commands_.emplace_back(SendChange{std::move(members), {epoch_, ++change_serial_, change}});
}

/// The job ends: workers in no epoch get none any more. Members finish what they do.
void Director::end_leftovers() {
  for (Entry& entry : workers_) {
    const bool member = entry.second.ready.last_epoch == epoch_ && epoch_ > 0;
    if (entry.second.state == State::kReady) {
      dismiss(entry, failed_ || member, failed_ ? "the job has failed" : "the job has finished");
    } else if (entry.second.state == State::kStarting) {
      stop(entry);
    }
  }
}

void Director::fail(int exit_status, const std::string& text) {
  if (failed_) return;
  failed_ = true;
  exit_status_ = exit_status;
  commands_.emplace_back(FailJob{exit_status, text});
}

// Epochs.

void Director::try_epoch(TimePoint time) {
  if (is_open() || still_starting(time)) return;
  dismiss_leavers();
  drop_unreachable_hosts(time);
  std::vector<Entry*> ready = ready_in_order();
  const bool nobody_comes = workers_.empty() && hosts_.next_change(time) == kForever;
  if (nobody_comes && state_is_lost(ready)) {
    return fail(last_failure_.exit_status, last_failure_.text);
  }
  if (!enough_ready(ready.size(), time)) return;
  if (state_is_lost(ready)) {
    return fail(last_failure_.exit_status,
                fmt::format("every worker that held the state has ended; the last: {}",
                            last_failure_.text));
  }
  if (options_.reset_limit >= 0 && epoch_ > static_cast<EpochId>(options_.reset_limit)) {
    return fail(1, fmt::format("the job was reset {} times (--reset-limit); the last cause: {}",
                               options_.reset_limit, cause_));
  }
  begin(ready);
}

/// The first epoch waits for all workers that have started.
bool Director::still_starting(TimePoint time) const {
  return epoch_ == 0 && count(State::kStarting) > 0 && time - started_ < options_.start_timeout;
}

/// Leavers that alone hold the state take part once more, to hand it over.
void Director::dismiss_leavers() {
  bool stays = false, holder_stays = !state_exists_;
  for (const auto& [id, worker] : workers_) {
    if (worker.leaving() || worker.stopped) continue;
    stays = true;
    holder_stays |= worker.holds_state && worker.state == State::kReady;
  }
  for (Entry& entry : workers_) {
    const Worker& worker = entry.second;
    if (worker.state != State::kReady || !worker.leaving()) continue;
    if (worker.holds_state && stays && !holder_stays) continue;
    dismiss(entry, false, "this worker was asked to leave");
  }
}

/// If an epoch could not begin because hosts do not reach each other, those that miss most of the
/// others end; of equals the last one.
void Director::drop_unreachable_hosts(TimePoint time) {
  std::map<std::pair<std::string, std::string>, int> cuts;  // between two hosts
  for (const auto& [id, worker] : workers_) {
    if (worker.state != State::kReady || worker.ready.began || worker.ready.last_epoch != epoch_)
      continue;
    for (const WorkerId suspect : worker.ready.suspects) {
      const auto other = workers_.find(suspect);
      if (other == workers_.end() || other->second.host == worker.host) continue;
      ++cuts[std::minmax(worker.host, other->second.host)];
    }
  }
  while (!cuts.empty()) {
    std::map<std::string, int> misses;
    for (const auto& [pair, number] : cuts) {
      misses[pair.first] += number;
      misses[pair.second] += number;
    }
    std::string worst;
    for (const std::string& host : hosts_.names()) {
      if (misses.contains(host) && (worst.empty() || misses[host] >= misses[worst])) worst = host;
    }
    if (worst.empty()) return;
    report(fmt::format("host {} does not reach the others: its workers end", worst));
    hosts_.on_lost(worst, time);
    for (Entry& entry : workers_) {
      if (entry.second.host == worst) stop(entry);
    }
    std::erase_if(cuts, [&](const auto& cut) {
      return cut.first.first == worst || cut.first.second == worst;
    });
  }
}

/// Says what is waited for, once; fails the job after the elastic timeout.
bool Director::enough_ready(std::size_t ready, TimePoint time) {
  const auto least = static_cast<std::size_t>(std::max(1, options_.min_workers));
  if (ready >= least) {
    waiting_since_ = kForever;
    return true;
  }
  const bool was_waiting = waiting_since_ != kForever;
  waiting_since_ = std::min(waiting_since_, time);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.elastic_timeout);
  if (time - waiting_since_ >= options_.elastic_timeout) {
    fail(1, fmt::format("{} of at least {} ready after {} s (--elastic-timeout); {}",
                        workers_text(ready), least, seconds.count(),
                        cause_.empty() ? "no host has room for more" : cause_));
  } else if (!was_waiting && (epoch_ > 0 || count(State::kStarting) == 0)) {
    report(fmt::format("waiting for {} more, up to {} s: {} of at least {} ready",
                       workers_text(least - ready), seconds.count(), workers_text(ready), least));
  }
  return false;
}

bool Director::state_is_lost(const std::vector<Entry*>& ready) const {
  return state_exists_ && std::ranges::none_of(ready, [](const Entry* entry) {
           return entry->second.holds_state || entry->second.ready.can_resume;
         });
}

/// Workers that hold the state keep their order and come first; new ones of a host are neighbours.
std::vector<Director::Entry*> Director::ready_in_order() {
  std::vector<Entry*> ready;
  for (Entry& entry : workers_) {
    if (entry.second.state == State::kReady) ready.push_back(&entry);
  }
  const auto& names = hosts_.names();
  const auto key = [&](const Entry* entry) {
    const Worker& worker = entry->second;
    const int last = worker.last_rank < 0 ? std::numeric_limits<int>::max() : worker.last_rank;
    return std::tuple(!worker.holds_state, last, std::ranges::find(names, worker.host),
                      entry->first);
  };
  std::ranges::sort(ready, {}, key);
  const auto most = static_cast<std::size_t>(options_.max_workers);
  if (most > 0 && ready.size() > most) ready.resize(most);
  return ready;
}

void Director::begin(const std::vector<Entry*>& ready) {
  BeginEpoch begun{++epoch_, {}, std::exchange(cause_, {})};
  for (Entry* entry : ready) {
    Worker& worker = entry->second;
    begun.workers.push_back({entry->first, worker.host, worker.holds_state});
    worker.last_rank = static_cast<int>(begun.workers.size()) - 1;
    worker.state = State::kMember;
  }
  joiner_since_ = suspects_since_ = kForever;
  suspects_.clear();
  closing_ = false;
  commands_.emplace_back(std::move(begun));
}

TimePoint Director::next_deadline(TimePoint time) const {
  if (ending()) return kForever;
  TimePoint next = hosts_.next_change(time);
  const auto consider = [&](TimePoint since, Duration limit) {
    if (since != kForever && since + limit > time) next = std::min(next, since + limit);
  };
  if (epoch_ == 0) consider(started_, options_.start_timeout);
  consider(waiting_since_, options_.elastic_timeout);
  consider(suspects_since_, kSuspectGrace);
  consider(joiner_since_, kJoinWindow);
  return next;
}

}  // namespace ronde::elastic
