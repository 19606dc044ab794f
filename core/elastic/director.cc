#include "core/elastic/director.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/elastic/unreachable.h"

namespace ronde::elastic {
namespace {

constexpr std::chrono::seconds kLongestFetchPause{30};

}  // namespace

// Events.

void Director::set_hosts(const std::vector<HostPlaces>& hosts, TimePoint time) {
  if (epoch_ == 0) policy_.on_first_hosts(time);
  hosts_.set(hosts);
  settle(time, epoch_ > 0 && options_.await_new_hosts);
}

void Director::on_started(WorkerId id, CopyStep copies) {
  RosterWorker* worker = workers_.find(id);
  if (worker == nullptr) return;
  copies_.take(worker->host, copies);
  worker->inherited = copies;
}

void Director::on_ready(WorkerId id, const ReadyNote& note, TimePoint time) {
  RosterWorker* worker = workers_.find(id);
  if (worker == nullptr || worker->stopped) return;
  if (worker->state == State::kFinished) {
    const char* const why = "its function has returned, so that no epoch can follow";
    return commands_.add(DismissWorker{id, {true, why}});
  }
  worker->state = State::kReady;
  if (!note.can_resume) worker->inherited = kNoCopy;
  worker->ready = note;
  worker->holds_state = note.holds_state;
  if (note.last_epoch == epoch_ && epoch_ > 0) {
    closing_ = true;
    watch_.suspect(note.suspects);
  }
  if (cause_.empty() && !note.why.empty()) cause_ = fmt::format("worker {}: {}", id, note.why);
  settle_epoch(time);
}

void Director::on_holds(WorkerId id) {
  RosterWorker* worker = workers_.find(id);
  if (worker == nullptr) return;
  worker->holds_state = true;
  worker->inherited = kNoCopy;
  state_exists_ = true;
  fetch_at_ = {};
  fetch_pause_ = kFirstFetchPause;
}

void Director::on_leaving(WorkerId id, TimePoint time) {
  RosterWorker* worker = workers_.find(id);
  if (worker == nullptr || worker->asked_to_leave) return;
  worker->asked_to_leave = true;
  if (!worker->surplus) hosts_.on_left(worker->host);  // surplus workers have no place to give up
  settle(time);
}

void Director::on_finished(WorkerId id, TimePoint time) {
  RosterWorker* worker = workers_.find(id);
  if (worker == nullptr) return;
  worker->state = State::kFinished;
  finished_ = true;
  quiet_end_.clear();
  settle(time);
}

void Director::on_ended(WorkerId id, const WorkerEnd& end, TimePoint time) {
  const std::optional<RosterWorker> gone = workers_.remove(id);
  if (!gone) return;
  copies_.add(gone->host, end.copy_step);
  if (end.exit_status == 0) {
    if (gone->stays()) take_quiet_end(id, *gone, end, time);
  } else if (!gone->stopped) {
    take_failure(id, *gone, end, time);
  }
  if (gone->state == State::kMember) send_void(fmt::format("worker {} {}", id, end.text));
  settle(time);
}

/// With status 0, and nobody had asked for it.
void Director::take_quiet_end(WorkerId id, const RosterWorker& gone, const WorkerEnd& end,
                              TimePoint time) {
  const std::string text = fmt::format("worker {} {}", id, end.text);
  const bool waited = gone.state == State::kReady;
  if (waited || (gone.state == State::kStarting && epoch_ > 0)) {
    if (!ending()) commands_.report(text + " before it took part");
    if (waited) cause_ = text;
    return count_failure(gone.host, time);
  }
  if (gone.state == State::kMember) {
    if (!ending()) commands_.report(text + ", which counts as finished");
    if (!finished_) quiet_end_ = text;
  }
  finished_ = true;
}

void Director::take_failure(WorkerId id, const RosterWorker& gone, const WorkerEnd& end,
                            TimePoint time) {
  const std::string text = fmt::format("worker {} {}", id, end.text);
  count_failure(gone.host, time);
  if (failed_) return;
  if (gone.state == State::kMember || gone.state == State::kReady) cause_ = text;
  closing_ |= gone.state == State::kMember;
  last_failure_ = {end.exit_status, text};
  if (finished_ && exit_status_ == 0) exit_status_ = end.exit_status;
  // An exception before the first epoch, or on the last member, would only come again.
  const bool by_itself = end.exit_status < 128;
  const bool alone = workers_.count(State::kMember) + workers_.count(State::kReady) == 0;
  if (by_itself && !finished_ && (epoch_ == 0 || alone)) fail(end.exit_status, text);
}

/// Reports a host that gets no workers from now on.
void Director::count_failure(const std::string& host, TimePoint time) {
  const bool before = hosts_.blacklisted(host, time);
  hosts_.on_failure(host, time);
  if (before || ending() || !hosts_.blacklisted(host, time)) return;
  const bool left = std::ranges::any_of(
      hosts_.names(), [&](const std::string& name) { return !hosts_.blacklisted(name, time); });
  const TimePoint until = hosts_.paused_until(host);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(until - time).count();
  commands_.report(fmt::format(
      "host {} is blacklisted{} (--on-failure blacklist): its workers end{}", host,
      until == kForever ? "" : fmt::format(" for {} s", seconds),
      left ? "" : "; no host is left. --on-failure respawn replaces a failed worker instead"));
}

void Director::on_frozen(WorkerId id, std::chrono::seconds stopped_for, TimePoint time) {
  RosterWorker* worker = workers_.find(id);
  if (worker == nullptr || worker->stopped) return;
  const std::string text =
      fmt::format("worker {} has been stopped for {} s (RONDE_FREEZE_TIMEOUT_SECONDS)", id,
                  stopped_for.count());
  commands_.report(text + "; it is killed");
  if (ending() || worker->state == State::kFinished) {  // its end is a failure
    commands_.add(StopWorker{id});
    return;
  }
  count_failure(worker->host, time);
  cause_ = text;
  if (worker->state == State::kMember) {  // until its process has ended
    worker->stopped = closing_ = true;
    commands_.add(StopWorker{id});
  } else {
    stop(id, *worker);
  }
  settle(time);
}

void Director::on_host_lost(const std::string& host, const std::string& why, TimePoint time) {
  hosts_.on_lost(host, time);
  const std::string text = fmt::format("host {} is lost: {}", host, why);
  const int members = workers_.count(State::kMember);
  workers_.remove_host(host);
  copies_.remove_host(host);
  checks_.forget(host);
  last_failure_ = {1, text};
  commands_.report(text);
  if (workers_.count(State::kMember) < members) {  // else the epoch goes on
    closing_ = true;
    cause_ = text;
    send_void(text);
  }
  settle(time);
}

void Director::on_host_tried(const std::string& host, const std::string& missed, TimePoint time) {
  if (missed.empty()) {
    checks_.pass(host);
    unreached_.erase(host);
  } else {
    checks_.forget(host);
    drop(host, time);
    if (unreached_.insert(host).second) {
      commands_.report(
          fmt::format("host {} gets no workers, and is tried again later: {}", host, missed));
    }
  }
  settle(time);
}

// Decisions.

void Director::settle(TimePoint time, bool hosts_come) {
  if (!ending()) {
    workers_.mark_surplus(hosts_.slots_at(time));
    start_workers(time, hosts_come);
  }
  settle_epoch(time);
}

void Director::settle_epoch(TimePoint time) {
  if (!ending()) {
    fetch_state(time);
    stop_suspects(time);
    try_epoch(time);
    if (auto text = watch_.delay(workers_, epoch_, closing_, time)) commands_.report(*text);
    send_change(time);
  }
  if (ending()) end_leftovers();
}

/// Workers that may still start, on all hosts together.
int Director::places_left(TimePoint time) const {
  int wanted = options_.max_workers;
  if (wanted == 0) {
    for (const std::string& host : hosts_.names()) wanted += hosts_.slots(host, time);
  }
  return wanted - workers_.count_staying();
}

bool Director::has_room(const std::string& host, TimePoint time) const {
  return workers_.count_on(host) < hosts_.slots(host, time);
}

WorkerId Director::start(const std::string& host) {
  const WorkerId id = workers_.add(host);
  commands_.add(StartWorker{id, host});
  return id;
}

/// The places of a host that is tried are kept for it.
void Director::start_workers(TimePoint time, bool awaited) {
  int wanted = places_left(time);
  for (const std::string& host : hosts_.names()) {
    const int room = std::min(wanted, hosts_.slots(host, time) - workers_.count_on(host));
    if (room <= 0 || !hosts_.may_start(host, time)) continue;
    wanted -= room;
    if (must_try(host, awaited)) continue;
    const bool waits = awaited || checks_.awaited(host);
    checks_.forget(host);
    for (int i = 0; i < room; ++i) workers_.find(start(host))->awaited = waits;
    if (waits) policy_.on_start(time);
  }
}

/// True if a worker may start there only after a trial, which begins or runs. Hosts with workers
/// need none, nor does a job that has no epoch.
bool Director::must_try(const std::string& host, bool awaited) {
  if (checks_.passed(host) || workers_.count_on(host) > 0) return false;
  std::set<std::string> others;
  for (const auto& [id, worker] : workers_) {
    if (worker.state == State::kMember) others.insert(worker.host);
  }
  if (others.empty()) return false;
  if (checks_.begin(host, awaited)) {
    commands_.add(TryHost{host, {others.begin(), others.end()}});
  }
  return true;
}

/// The host whose agent has newer copies than all workers, if nobody holds the state.
std::optional<std::string> Director::host_with_last_copies() const {
  if (!state_exists_) return std::nullopt;
  CopyStep inherited = kNoCopy;
  for (const auto& [id, worker] : workers_) {
    if (worker.stopped) continue;
    if (worker.holds_state) return std::nullopt;
    inherited = std::max(inherited, worker.inherited);
  }
  const auto newest = std::ranges::max_element(
      hosts_.names(), {}, [&](const std::string& host) { return copies_.newest_of(host); });
  if (newest == hosts_.names().end() || copies_.newest_of(*newest) <= inherited) {
    return std::nullopt;
  }
  return *newest;
}

/// Starts a worker on a host that may have none, if only its agent has the state. The worker hands
/// it over, then leaves.
void Director::fetch_state(TimePoint time) {
  const auto host = host_with_last_copies();
  if (!host || workers_.count_staying() == 0 || time < fetch_at_) return;
  if (has_room(*host, time) && places_left(time) > 0) return;  // one starts there by itself
  for (const auto& [id, worker] : workers_) {
    if (worker.host == *host && worker.state == State::kStarting) return;
  }
  fetch_at_ = time + fetch_pause_;
  fetch_pause_ = std::min(2 * fetch_pause_, Duration(kLongestFetchPause));
  const WorkerId id = start(*host);
  workers_.find(id)->asked_to_leave = true;
  commands_.report(fmt::format("worker {} brings the last commit, which {} alone has", id, *host));
}

/// The newest copies with agents: a worker will start there by itself, or fetch them.
CopyStep Director::copy_to_come() const {
  CopyStep newest = kNoCopy;
  for (const std::string& host : hosts_.names()) {
    newest = std::max(newest, copies_.newest_of(host));
  }
  return newest;
}

/// Members that all others have lost never become ready: they are frozen or cut off.
void Director::stop_suspects(TimePoint time) {
  if (!watch_.suspects_are_lost(workers_, time)) return;
  for (Entry& entry : workers_) {
    if (entry.second.state != State::kMember || entry.second.stopped) continue;
    commands_.report(fmt::format("worker {} is stopped: the others have lost it", entry.first));
    count_failure(entry.second.host, time);
    stop(entry.first, entry.second);
  }
  workers_.mark_surplus(hosts_.slots_at(time));  // their hosts may be blacklisted now
}

/// Its end is awaited, but nothing else of it.
void Director::stop(WorkerId id, RosterWorker& worker) {
  if (worker.stopped) return;
  worker.stopped = true;
  const bool was_member = std::exchange(worker.state, State::kFinished) == State::kMember;
  commands_.add(StopWorker{id});
  if (was_member) send_void(fmt::format("worker {} is killed", id));
}

/// Makes the epoch's members stop at their next commit if workers wait to join or are to leave.
void Director::send_change(TimePoint time) {
  if (closing_ || epoch_ == 0) return;
  const auto change = watch_.change(workers_, epoch_, time);
  if (!change) return;
  commands_.add(SendChange{workers_.members(), {epoch_, ++change_serial_, *change}});
}

/// A member of the epoch is gone. Others that still connect would wait for it.
void Director::send_void(const std::string& why) {
  if (std::exchange(void_, true)) return;
  if (workers_.count(State::kMember) == 0) return;
  commands_.add(SendVoid{workers_.members(), {epoch_, why}});
}

/// The job ends: workers in no epoch get none any more. Members finish what they do, and so do
/// starting workers of a job without an epoch: its program may never call init().
void Director::end_leftovers() {
  refuse_early_end();
  for (Entry& entry : workers_) {
    if (entry.second.state == State::kReady) {
      commands_.dismiss(entry, failed_, failed_ ? "the job has failed" : "the job has finished");
    } else if (entry.second.state == State::kStarting && (failed_ || epoch_ > 0)) {
      stop(entry.first, entry.second);
    }
  }
}

/// A member has ended with status 0, but others of its epoch are ready for another one.
void Director::refuse_early_end() {
  if (quiet_end_.empty()) return;
  const bool others_go_on = std::ranges::any_of(workers_, [&](const Entry& entry) {
    return entry.second.state == State::kReady && entry.second.ready.last_epoch == epoch_;
  });
  if (others_go_on)
    fail(std::max(1, exit_status_), quiet_end_ + " before the others of its epoch had finished");
}

void Director::fail(int exit_status, const std::string& text) {
  if (failed_) return;
  failed_ = true;
  exit_status_ = exit_status;
  commands_.add(FailJob{exit_status, text});
}

// Epochs.

/// Waits for members that may still work in the last epoch.
void Director::try_epoch(TimePoint time) {
  if (workers_.count(State::kMember) > 0) return;
  const JobFacts job{.epoch = epoch_,
                     .state_exists = state_exists_,
                     .nobody_comes = workers_.empty() && hosts_.next_change(time) == kForever,
                     .copy_to_come = copy_to_come(),
                     .cause = cause_,
                     .last_failure = last_failure_};
  if (policy_.awaits_starters(workers_, job, time)) return;
  dismiss_leavers();
  drop_unreachable_hosts(time);
  if (tries_cut_hosts()) return;
  const EpochPolicy::Takers takers = policy_.takers(workers_, hosts_.names());
  const Verdict verdict = policy_.judge(workers_, takers, job, time);
  if (verdict.kind == Verdict::Kind::kFail) return fail(verdict.exit_status, verdict.text);
  if (verdict.kind == Verdict::Kind::kBegin) return begin(takers);
  if (!verdict.text.empty()) commands_.report(verdict.text);
}

/// Leavers with a newer state than others take part once more, to hand it over.
void Director::dismiss_leavers() {
  const bool stays = workers_.count_staying() > 0;
  const CopyStep newest = workers_.newest_that_stays();
  for (Entry& entry : workers_) {
    const RosterWorker& worker = entry.second;
    if (worker.state != State::kReady || !worker.leaving()) continue;
    if (stays && worker.state_step() > newest) continue;
    commands_.dismiss(entry, false, "this worker was asked to leave");
  }
}

/// A death explains as well why an epoch could not begin.
void Director::drop_unreachable_hosts(TimePoint time) {
  if (void_) return;
  for (const std::string& host :
       unreachable_hosts(workers_, hosts_.names(), epoch_, Missing::kConnection)) {
    commands_.report(fmt::format("host {} does not reach the others: its workers end", host));
    drop(host, time);
  }
}

/// Hosts whose ranks lost each other: true until they have been tried, as an epoch with a host that
/// is cut off would wait for it.
bool Director::tries_cut_hosts() {
  if (void_) return false;
  std::set<std::string> ready;
  for (const auto& [id, worker] : workers_) {
    if (worker.state == State::kReady) ready.insert(worker.host);
  }
  auto cut = unreachable_hosts(workers_, hosts_.names(), epoch_, Missing::kLater);
  std::erase_if(cut, [&](const std::string& host) { return !ready.contains(host); });
  std::set<std::string> others = ready;
  for (const std::string& host : cut) others.erase(host);
  bool waits = false;
  for (const std::string& host : cut) {
    if (checks_.passed(host) || others.empty()) continue;
    if (checks_.begin(host, false)) commands_.add(TryHost{host, {others.begin(), others.end()}});
    waits = true;
  }
  return waits;
}

/// Its workers end. It is not used at once again.
void Director::drop(const std::string& host, TimePoint time) {
  hosts_.on_lost(host, time);
  for (Entry& entry : workers_) {
    if (entry.second.host == host) stop(entry.first, entry.second);
  }
}

void Director::begin(const EpochPolicy::Takers& takers) {
  BeginEpoch begun{++epoch_, {}, std::exchange(cause_, {})};
  for (Entry* entry : takers) {
    RosterWorker& worker = entry->second;
    begun.workers.push_back({entry->first, worker.host, worker.holds_state});
    worker.last_rank = static_cast<int>(begun.workers.size()) - 1;
    worker.state = State::kMember;
    checks_.forget(worker.host);
  }
  for (Entry& entry : workers_) entry.second.awaited = false;
  watch_ = {};
  closing_ = void_ = false;
  policy_.on_begin();
  commands_.add(std::move(begun));
}

TimePoint Director::next_deadline(TimePoint time) const {
  if (ending()) return kForever;
  const TimePoint fetch = fetch_at_ > time ? fetch_at_ : kForever;
  return std::min(
      {hosts_.next_change(time), policy_.next_deadline(time), watch_.next_deadline(time), fetch});
}

}  // namespace ronde::elastic
