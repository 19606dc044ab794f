#include "bindings/cli/launch/elastic/job_history.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <utility>

#include "core/base/join_text.h"
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

JobHistory::Worker* JobHistory::find(WorkerId worker) {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : &found->second;
}

void JobHistory::on_start(WorkerId worker, const std::string& host) {
  workers_[worker].host = host;
}

void JobHistory::on_started(WorkerId id, int pid) {
  Worker* const worker = find(id);
  if (worker == nullptr) return;
  worker->pid = pid;
  record(WorkerEvent::kStarted, id, fmt::format("pid {} on {}", pid, worker->host));
}

void JobHistory::on_ready(WorkerId id, const elastic::ReadyNote& note) {
  Worker* const worker = find(id);
  if (worker == nullptr) return;
  if (note.last_epoch == epoch_ && epoch_ > 0) end_epoch(!note.why.empty());
  worker->state = State::kReady;
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

void JobHistory::on_leaving(WorkerId id) {
  if (Worker* const worker = find(id)) worker->leaving = true;
}

void JobHistory::on_finished(WorkerId id) {
  Worker* const worker = find(id);
  if (worker == nullptr) return;
  worker->state = State::kFinished;
  open_ = false;
  if (recorder_) recorder_->close();  // there is no epoch after this one
  record(WorkerEvent::kFinished, id, "");
}

void JobHistory::forget(WorkerId worker, const std::string& why) {
  if (gone_.size() >= kMostGone) gone_.erase(gone_.begin());
  gone_.push_back({worker, epoch_, why});
  workers_.erase(worker);
}

void JobHistory::on_ended(WorkerId id, const elastic::WorkerEnd& end, EndCause cause) {
  const Worker* const found = find(id);
  if (found == nullptr) return;
  const Worker& worker = *found;
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
    return fmt::format("worker {} to leave epoch {}", join_text(members, ", "), epoch_);
  }
  if (!report_.empty()) return report_;
  if (!starting.empty()) return fmt::format("worker {} to start", join_text(starting, ", "));
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

namespace {

constexpr std::string_view kPrefix = "ronde-elastic/";

}  // namespace

std::string LauncherAddress::text() const { return fmt::format("{}{}/{}", kPrefix, pid, job); }

std::optional<LauncherAddress> LauncherAddress::parse(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  LauncherAddress address;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), address.pid);
  const auto used = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || used >= text.size() || text[used] != '/') return std::nullopt;
  address.job = text.substr(used + 1);
  if (address.pid < 1 || address.job.find('/') != std::string::npos) return std::nullopt;
  return address;
}

bool LauncherAddress::owns(std::string_view job_id) const {
  return job_id.size() > job.size() && job_id.starts_with(job) && job_id[job.size()] == '-';
}

StatusSocket::StatusSocket(const JobHistory& history) : history_(history) {
  auto socket = diagnosis::open_diagnostics(LauncherAddress{::getpid(), history.job()}.text());
  if (socket.ok()) socket_.emplace(std::move(socket).value());
}

/// on_time() is called after each wait.
void StatusSocket::watch(PollSet& set) const {
  if (!socket_) return;
  std::vector<pollfd> polled;
  socket_->gather(polled);
  for (const pollfd& one : polled) set.add(one.fd, one.events, [] {});
}

TimePoint StatusSocket::deadline() const { return socket_ ? socket_->next_turn() : kForever; }

void StatusSocket::on_time(TimePoint time) {
  if (!socket_) return;
  socket_->turn(time, diagnosis::to_requests([this](std::string_view) {
                  return std::make_shared<const std::string>(history_.status());
                }));
}

}  // namespace ronde
