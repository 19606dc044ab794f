#include "bindings/cli/launch/elastic/job_history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <utility>

#include "core/base/json.h"

namespace ronde {
namespace {

using elastic::WorkerId;
constexpr std::size_t kMostGone = 1000;  // in an answer

int number_of(WorkerId worker) { return static_cast<int>(worker); }

EpochFacts facts_of(const elastic::BeginEpoch& epoch) {
  EpochFacts facts{static_cast<int>(epoch.epoch), {}, epoch.why};
  for (const elastic::EpochWorker& worker : epoch.workers) {
    facts.workers.push_back(number_of(worker.worker));
  }
  return facts;
}

}  // namespace

JobHistory::JobHistory(std::string job, const std::string& timeline) : job_(std::move(job)) {
  if (timeline.empty()) return;
  auto recorder = EpochRecorder::open(timeline, job_);
  if (recorder.ok()) {
    recorder_.emplace(std::move(recorder).value());
  } else {
    fmt::print(stderr, "ronde run: {}\n", recorder.status().message());
  }
}

void JobHistory::record(WorkerEvent event, WorkerId worker, const std::string& why) {
  if (recorder_) recorder_->add(event, number_of(worker), static_cast<int>(epoch_), why);
}

void JobHistory::end_epoch(bool failed) {
  if (std::exchange(open_, false) && recorder_) recorder_->end_epoch(failed);
}

void JobHistory::on_start(WorkerId worker, const std::string& host) {
  workers_[worker].host = host;
}

void JobHistory::on_started(WorkerId worker, int pid) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  found->second.pid = pid;
  record(WorkerEvent::kStarted, worker, fmt::format("pid {} on {}", pid, found->second.host));
}

void JobHistory::on_ready(WorkerId worker, const elastic::ReadyNote& note) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  if (note.last_epoch == epoch_ && epoch_ > 0) end_epoch(!note.why.empty());
  found->second.state = State::kReady;
}

void JobHistory::on_epoch(const elastic::BeginEpoch& epoch) {
  const elastic::EpochId before = std::exchange(epoch_, epoch.epoch);
  end_epoch(false);
  if (recorder_) recorder_->begin_epoch(facts_of(epoch));
  open_ = true;
  report_.clear();
  for (auto& [id, worker] : workers_) worker.rank = -1;
  int rank = 0;
  for (const elastic::EpochWorker& member : epoch.workers) {
    Worker& worker = workers_[member.worker];
    const bool joins = !std::exchange(worker.took_part, true) && before > 0;
    if (joins) record(WorkerEvent::kJoined, member.worker, "");
    worker.rank = rank++;
    worker.state = State::kMember;
    parts_.push_back({member.worker, epoch.epoch, member.host});
  }
}

void JobHistory::on_leaving(WorkerId worker) {
  const auto found = workers_.find(worker);
  if (found != workers_.end()) found->second.leaving = true;
}

void JobHistory::on_finished(WorkerId worker) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  found->second.state = State::kFinished;
  open_ = false;
  if (recorder_) recorder_->close();  // there is no epoch after this one
  record(WorkerEvent::kFinished, worker, "");
}

void JobHistory::forget(WorkerId worker, const std::string& why) {
  if (gone_.size() >= kMostGone) gone_.erase(gone_.begin());
  gone_.push_back({worker, epoch_, why});
  workers_.erase(worker);
}

void JobHistory::on_ended(WorkerId id, const elastic::WorkerEnd& end, EndCause cause) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  const Worker& worker = found->second;
  const bool lost = cause == EndCause::kStopped && worker.state == State::kMember;
  const bool died = lost || (cause == EndCause::kItself && end.exit_status != 0);
  if (died && worker.state == State::kMember) end_epoch(true);
  std::string why = died ? end.text : "";
  if (lost) why = "was stopped, as the others had lost it";
  if (!died && cause == EndCause::kJobEnds) why = "the job ended";
  if (!died && worker.leaving) why = "was asked to leave";
  if (died) {
    record(WorkerEvent::kDied, id, why);
  } else if (worker.state != State::kFinished) {
    record(WorkerEvent::kLeft, id, why);
  }
  forget(id, why);
}

void JobHistory::on_host_lost(const std::string& host, const std::string& why) {
  std::vector<WorkerId> lost;
  for (const auto& [id, worker] : workers_) {
    if (worker.host == host) lost.push_back(id);
  }
  if (!lost.empty()) end_epoch(true);
  const std::string text = fmt::format("host {} is lost: {}", host, why);
  for (const WorkerId id : lost) {
    record(WorkerEvent::kDied, id, text);
    forget(id, text);
  }
}

void JobHistory::close() {
  if (recorder_) recorder_->close();
}

/// A sentence about the workers that keep the next epoch from beginning; empty while one is open.
std::string JobHistory::awaited() const {
  if (open_) return {};
  std::vector<WorkerId> members, starting;
  for (const auto& [id, worker] : workers_) {
    if (worker.state == State::kMember) members.push_back(id);
    if (worker.state == State::kStarting) starting.push_back(id);
  }
  if (!members.empty()) {
    return fmt::format("worker {} to leave epoch {}", fmt::join(members, ", "), epoch_);
  }
  if (!report_.empty()) return report_;
  if (!starting.empty()) return fmt::format("worker {} to start", fmt::join(starting, ", "));
  return epoch_ == 0 ? "workers to start" : "the job's end";
}

std::string JobHistory::status() const {
  constexpr const char* kStates[] = {"starts", "waits for an epoch", "works", "has finished"};
  Json workers = Json::array();
  for (const auto& [id, worker] : workers_) {
    workers.push_back({{"worker", id},
                       {"host", worker.host},
                       {"pid", worker.pid},
                       {"rank", worker.rank},
                       {"state", kStates[static_cast<std::size_t>(worker.state)]},
                       {"leaving", worker.leaving}});
  }
  Json gone = Json::array();
  for (const Gone& one : gone_) {
    gone.push_back({{"worker", one.worker}, {"epoch", one.epoch}, {"why", one.why}});
  }
  const Json answer = {
      {"launcher", ::getpid()}, {"job", job_},        {"epoch", epoch_}, {"open", open_},
      {"awaits", awaited()},    {"workers", workers}, {"gone", gone}};
  return print_json(answer) + "\n";
}

}  // namespace ronde
