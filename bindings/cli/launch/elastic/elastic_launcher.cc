#include "bindings/cli/launch/elastic/elastic_launcher.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "bindings/cli/launch/console.h"
#include "bindings/cli/launch/elastic/agent_pool.h"
#include "bindings/cli/launch/elastic/epoch_announcer.h"
#include "bindings/cli/launch/elastic/epoch_text.h"
#include "bindings/cli/launch/elastic/job_hosts.h"
#include "bindings/cli/launch/elastic/job_story.h"
#include "bindings/cli/launch/elastic/start_queue.h"
#include "bindings/cli/launch/elastic/status_socket.h"
#include "bindings/cli/launch/elastic/worker_notes.h"
#include "bindings/cli/launch/end_schedule.h"
#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/poll_set.h"
#include "bindings/cli/launch/process.h"

namespace ronde {
namespace {

using elastic::WorkerId;

/// In which a worker that leaves may save, once the job has been asked to end.
constexpr std::chrono::seconds kLeavingTime{30};

/// A worker whose process has not ended, or has not started yet.
struct Worker {
  std::string host;
  int pid = 0;
  bool stopped = false;
  elastic::ReadyNote ready;  ///< The last one.
};

class ElasticLauncher {
 public:
  explicit ElasticLauncher(const ElasticOptions& options);
  ElasticResult run();

  // The director's commands.
  void operator()(const elastic::StartWorker& start);
  void operator()(const elastic::StopWorker& stop);
  void operator()(const elastic::BeginEpoch& epoch);
  void operator()(const elastic::SendChange& change);
  void operator()(const elastic::SendVoid& end);
  void operator()(const elastic::DismissWorker& dismissal);
  void operator()(const elastic::Report& report) {
    story_.on_report(report.text);
    if (!stopping_) console_.say(report.text);
  }
  void operator()(const elastic::FailJob& failure);

 private:
  void turn();
  void on_signal(int signal);
  void stop(int signal);
  void forget_unstarted();
  void on_time(TimePoint time);
  [[nodiscard]] TimePoint deadline() const;
  void carry_out();
  // Hosts.
  void on_hosts(std::vector<HostSlots> hosts);
  void start_agent(const std::string& host);
  void start_worker(const elastic::StartWorker& start);
  void on_host_lost(const std::string& host, const std::string& why);
  void retire_agents();
  // Messages of agents.
  void on_frame(const std::string& host, const Frame& frame);
  void on_probed(const std::string& host, const ProbedMessage& answer);
  void on_note(const std::string& host, const NoteMessage& note);
  void take_note(WorkerId id, const elastic::ReadyNote& note);
  void take_note(WorkerId id, const elastic::HoldsNote& note);
  void take_note(WorkerId id, const elastic::LeavingNote& note);
  void take_note(WorkerId id, const elastic::FinishedNote& note);
  void on_started(const RankMessage& message);
  void on_exited(const RankMessage& message);
  void on_cannot_start(const CannotStartMessage& message);
  void on_frozen(const FrozenMessage& message);
  void on_ended(WorkerId id, const elastic::WorkerEnd& end);
  // Ending.
  void fail(int exit_status, const std::string& text);
  void end_workers(TimePoint time);
  void give_up();
  void finish();
  [[nodiscard]] bool ended() const { return finishing_ && agents_.empty() && console_.empty(); }

  [[nodiscard]] std::string where(const std::string& host) const {
    return hosts_.several() ? " on " + host : "";
  }
  template <typename Note>
  void send_notes(const std::vector<WorkerId>& ids, const Note& note) {
    for (const WorkerId id : ids) {
      const auto worker = workers_.find(id);
      if (worker != workers_.end()) agents_.send(worker->second.host, note_frame(id, note));
    }
  }
  void signal_all(int signal) { agents_.send_to_all(encode(SignalMessage{signal})); }

  const ElasticOptions& options_;
  SignalSource signals_;
  Console console_;
  EndSchedule ending_;
  JobStory story_;
  StatusSocket status_;
  elastic::Director director_;
  HostDiscovery discovery_;
  AgentPool agents_;
  EpochAnnouncer announcer_;
  JobHosts hosts_;
  StartQueue starts_;
  std::map<WorkerId, Worker> workers_;
  EpochText epochs_;
  TimePoint slots_deadline_ = kForever;     ///< For the first hosts.
  TimePoint director_deadline_ = kForever;  ///< The director wants to be called then.
  bool agents_changed_ = false;             ///< Some agent may have no use any more.
  bool stopping_ = false;                   ///< The job was asked to end, or has failed.
  bool finishing_ = false;                  ///< No worker is left, and none will start.
  int exit_status_ = 0;
};

ElasticLauncher::ElasticLauncher(const ElasticOptions& options)
    : options_(options),
      ending_(options.launch.grace),
      story_(random_hex(8), options.timeline),
      status_(story_),
      director_(options.director),
      discovery_(options.discovery,
                 {.on_hosts = [this](std::vector<HostSlots> hosts) { on_hosts(std::move(hosts)); },
                  .say = [this](const std::string& text) { console_.say(text); }}),
      agents_(options.launch,
              {.on_frame = [this](const std::string& host,
                                  const Frame& frame) { on_frame(host, frame); },
               .on_lost = [this](const std::string& host,
                                 const std::string& why) { on_host_lost(host, why); }}),
      announcer_(
          [this](const std::string& host, const std::string& frame) { agents_.send(host, frame); },
          story_.job(), options.launch.network_interface),
      hosts_(options.start_slots) {}

// The event loop.

ElasticResult ElasticLauncher::run() {
  const LaunchOptions& job = options_.launch;
  if (!job.output_dir.empty()) {
    if (const Status status = console_.keep_files(job.output_dir, 0, false); !status.ok()) {
      fmt::print(stderr, "ronde run: {}\n", status.message());
      return {2, {}};
    }
  }
  slots_deadline_ = now() + options_.director.elastic_timeout;
  if (options_.discovery.command.empty()) on_hosts(options_.hosts);
  carry_out();
  while (!ended()) turn();
  console_.flush_partial();
  while (!ended()) turn();
  story_.close();
  return {exit_status_, story_.parts()};
}

/// Agents are read before the signals: what they say of workers comes first.
void ElasticLauncher::turn() {
  PollSet polled;
  console_.watch(polled, [this] { stop(SIGPIPE); });
  agents_.watch(polled, !console_.stuck());
  discovery_.watch(polled);
  status_.watch(polled);
  polled.add(signals_.fd(), POLLIN, [this] {
    while (const auto signal = signals_.next()) on_signal(*signal);
  });
  polled.wait(deadline());
  on_time(now());
  carry_out();
  agents_.forget_ended();
}

TimePoint ElasticLauncher::deadline() const {
  return std::min({ending_.deadline(), console_.deadline(), discovery_.deadline(),
                   status_.deadline(), agents_.deadline(), starts_.deadline(), slots_deadline_,
                   director_deadline_});
}

/// A first request to end is passed on as it is; a second one kills.
void ElasticLauncher::on_signal(int signal) {
  if (signal == SIGCHLD) return discovery_.reap();
  if (signal == SIGUSR1 || signal == SIGUSR2) return signal_all(signal);
  ending_.hurry(now());
  stop(signal);
}

void ElasticLauncher::stop(int signal) {
  if (exit_status_ == 0) exit_status_ = 128 + signal;
  stopping_ = true;
  slots_deadline_ = kForever;
  discovery_.stop();
  signal_all(signal == SIGPIPE ? SIGTERM : signal);
  ending_.on_asked(now());
  forget_unstarted();
}

/// Workers that have no process get none.
void ElasticLauncher::forget_unstarted() {
  starts_.clear();
  std::erase_if(workers_, [](const auto& worker) { return worker.second.pid == 0; });
}

void ElasticLauncher::on_time(TimePoint time) {
  console_.on_time(time);
  discovery_.on_time(time);
  status_.on_time(time);
  agents_.on_time(time);
  end_workers(time);
  for (const elastic::StartWorker& start : starts_.due(time)) start_worker(start);
  if (time >= slots_deadline_) {
    fail(1, fmt::format("the hosts had fewer than {} slots for {} s (--elastic-timeout)",
                        options_.start_slots, options_.director.elastic_timeout.count() / 1000));
  }
  if (time >= director_deadline_) director_.on_time(time);
}

/// Does what the director wants, until it wants no more.
void ElasticLauncher::carry_out() {
  for (auto commands = director_.take_commands(); !commands.empty();
       commands = director_.take_commands()) {
    for (const elastic::Command& command : commands) std::visit(*this, command);
  }
  if (std::exchange(agents_changed_, false)) retire_agents();
  director_deadline_ = director_.next_deadline(now());
  if (workers_.empty() && (stopping_ || director_.over())) finish();
}

// Hosts.

void ElasticLauncher::on_hosts(std::vector<HostSlots> hosts) {
  if (stopping_) return;
  const JobHosts::Update update = hosts_.set(std::move(hosts));
  if (!update.text.empty()) console_.say(update.text);
  if (!update.news) return;
  slots_deadline_ = kForever;
  agents_changed_ = true;
  director_.set_hosts(hosts_.places(), now());
}

void ElasticLauncher::start_agent(const std::string& host) {
  StartMessage job;
  job.directory = std::filesystem::current_path().string();
  job.command = options_.launch.command;
  job.environment = forwarded_environment();
  job.elastic = true;
  job.slots = std::max(1, hosts_.slots(host));
  job.freeze_seconds = static_cast<int>(options_.freeze_timeout.count());
  agents_.start(host);
  agents_.send(host, encode(job));
}

void ElasticLauncher::on_host_lost(const std::string& host, const std::string& why) {
  starts_.remove_host(host);
  std::erase_if(workers_, [&](const auto& worker) { return worker.second.host == host; });
  story_.on_host_lost(host, why);
  if (stopping_) return;
  const auto unannounced = announcer_.take_unannounced(host);
  director_.on_host_lost(host, why, now());
  if (!unannounced) return;
  for (const elastic::EpochWorker& member : unannounced->workers) {
    const auto worker = workers_.find(member.worker);
    if (worker == workers_.end()) continue;
    worker->second.ready.last_epoch = unannounced->epoch;  // as if it had been told, and failed
    worker->second.ready.began = false;
    director_.on_ready(member.worker, worker->second.ready, now());
  }
}

/// Hosts that are not listed any more keep their agent until their last worker has ended.
void ElasticLauncher::retire_agents() {
  for (const std::string& host : agents_.hosts()) {
    const bool used = std::ranges::any_of(
        workers_, [&](const auto& worker) { return worker.second.host == host; });
    if (!used && !hosts_.lists(host)) agents_.retire(host);
  }
}

// Commands.

void ElasticLauncher::operator()(const elastic::StartWorker& start) {
  if (stopping_) return;
  workers_[start.worker].host = start.host;
  story_.on_start(start.worker, start.host);
  starts_.add(start, director_.epoch() == 0, now());
}

void ElasticLauncher::start_worker(const elastic::StartWorker& start) {
  if (director_.epoch() > 0 || options_.launch.verbose) {
    console_.say(fmt::format("worker {} starts{}", start.worker, where(start.host)));
  }
  RankStart rank{agent_rank(start.worker), {}};
  rank.environment = {fmt::format("{}={}", elastic::kWorkerVariable, start.worker),
                      "RONDE_ELASTIC=1", "HOROVOD_ELASTIC=1", "HOROVOD_HOSTNAME=" + start.host};
  rank.environment.insert(rank.environment.end(), options_.launch.environment.begin(),
                          options_.launch.environment.end());
  if (!agents_.has(start.host)) start_agent(start.host);
  agents_.send(start.host, encode(rank));
}

void ElasticLauncher::operator()(const elastic::StopWorker& stop) {
  const auto worker = workers_.find(stop.worker);
  if (worker == workers_.end()) return;
  if (starts_.remove(stop.worker)) return on_ended(stop.worker, {});
  worker->second.stopped = true;
  agents_.send(worker->second.host, encode(SignalMessage{SIGKILL, agent_rank(stop.worker)}));
}

void ElasticLauncher::operator()(const elastic::BeginEpoch& epoch) {
  if (stopping_) {
    for (const elastic::EpochWorker& worker : epoch.workers) {
      (*this)(elastic::DismissWorker{worker.worker, {false, "the job was asked to end"}});
    }
    return;
  }
  console_.say(epochs_.begin(epoch));
  story_.on_epoch(epoch);
  announcer_.begin(epoch);
  starts_.on_epoch(now());
}

void ElasticLauncher::operator()(const elastic::SendChange& change) {
  send_notes(change.workers, change.note);
}

void ElasticLauncher::operator()(const elastic::SendVoid& end) {
  if (!announcer_.defer(end.note)) send_notes(end.workers, end.note);
}

void ElasticLauncher::operator()(const elastic::DismissWorker& dismissal) {
  const auto worker = workers_.find(dismissal.worker);
  if (worker == workers_.end()) return;
  agents_.send(worker->second.host, note_frame(dismissal.worker, dismissal.note));
}

void ElasticLauncher::operator()(const elastic::FailJob& failure) {
  fail(failure.exit_status, failure.text);
}

// Messages of agents.

void ElasticLauncher::on_frame(const std::string& host, const Frame& frame) {
  switch (frame.type) {
    case FrameType::kNote:
      return with_message<NoteMessage>(frame,
                                       [&](const NoteMessage& note) { on_note(host, note); });
    case FrameType::kOutput:
      return with_message<OutputMessage>(frame, [&](const OutputMessage& output) {
        console_.pass_on(output.rank, output.stream, output.bytes);
      });
    case FrameType::kProcessExit:
      return agents_.send_to_others(host, encode_frame(frame.type, frame.payload));
    case FrameType::kExited:
      return with_message<RankMessage>(frame, [&](const RankMessage& rank) { on_exited(rank); });
    case FrameType::kStarted:
      return with_message<RankMessage>(frame, [&](const RankMessage& rank) { on_started(rank); });
    case FrameType::kCannotStart:
      return with_message<CannotStartMessage>(
          frame, [&](const CannotStartMessage& message) { on_cannot_start(message); });
    case FrameType::kFrozen:
      return with_message<FrozenMessage>(frame,
                                         [&](const FrozenMessage& message) { on_frozen(message); });
    case FrameType::kProbed:
      return with_message<ProbedMessage>(
          frame, [&](const ProbedMessage& answer) { on_probed(host, answer); });
    default:
      return;
  }
}

void ElasticLauncher::on_probed(const std::string& host, const ProbedMessage& answer) {
  const Status status = announcer_.on_probed(host, answer);
  if (!status.ok()) fail(1, status.message());
}

void ElasticLauncher::on_note(const std::string& host, const NoteMessage& note) {
  const WorkerId id = worker_of(note.rank);
  const auto worker = workers_.find(id);
  if (worker == workers_.end() || worker->second.host != host) return;
  const Status status =
      visit_note(note.bytes, [&](const auto& content) { take_note(id, content); });
  if (!status.ok()) console_.say(fmt::format("worker {}: {}", id, status.message()));
}

void ElasticLauncher::take_note(WorkerId id, const elastic::ReadyNote& note) {
  workers_[id].ready = note;
  story_.on_ready(id, note);
  director_.on_ready(id, note, now());
}

void ElasticLauncher::take_note(WorkerId id, const elastic::HoldsNote& note) {
  workers_[id].ready.holds_state = note.holds_state;
  if (note.holds_state) director_.on_holds(id);
}

void ElasticLauncher::take_note(WorkerId id, const elastic::LeavingNote& note) {
  console_.say(fmt::format("worker {} leaves{}{}", id, note.why.empty() ? "" : ": ", note.why));
  ending_.allow_until(now() + kLeavingTime);
  story_.on_leaving(id);
  director_.on_leaving(id, now());
}

void ElasticLauncher::take_note(WorkerId id, const elastic::FinishedNote& /*note*/) {
  story_.on_finished(id);
  director_.on_finished(id, now());
}

void ElasticLauncher::on_started(const RankMessage& message) {
  const auto worker = workers_.find(worker_of(message.rank));
  if (worker == workers_.end()) return;
  worker->second.pid = message.pid;
  story_.on_started(worker->first, message.pid);
}

void ElasticLauncher::on_exited(const RankMessage& message) {
  const auto worker = workers_.find(worker_of(message.rank));
  if (worker == workers_.end()) return;
  const std::string text = fmt::format("(pid {}{}) {}", message.pid, where(worker->second.host),
                                       describe_wait_status(message.wait_status));
  if (message.wait_status != 0 && !worker->second.stopped && !stopping_) {
    console_.say_after_output(fmt::format("worker {} {}", worker->first, text));
  }
  on_ended(worker->first, {exit_status_of(message.wait_status), text});
}

void ElasticLauncher::on_cannot_start(const CannotStartMessage& message) {
  const auto worker = workers_.find(worker_of(message.rank));
  if (worker == workers_.end()) return;
  const std::string text =
      fmt::format("cannot start{}: {}", where(worker->second.host), message.text);
  if (!stopping_) console_.say(fmt::format("worker {} {}", worker->first, text));
  on_ended(worker->first, {message.exit_status, text});
}

void ElasticLauncher::on_frozen(const FrozenMessage& message) {
  director_.on_frozen(worker_of(message.rank), std::chrono::seconds(message.seconds), now());
}

void ElasticLauncher::on_ended(WorkerId id, const elastic::WorkerEnd& end) {
  const bool stopped = workers_[id].stopped;
  story_.on_ended(id, end,
                  stopping_ ? EndCause::kJobEnds
                  : stopped ? EndCause::kStopped
                            : EndCause::kItself);
  workers_.erase(id);
  agents_changed_ = true;
  director_.on_ended(id, end, now());
}

// Ending.

void ElasticLauncher::fail(int exit_status, const std::string& text) {
  if (stopping_) return;
  stopping_ = true;
  slots_deadline_ = kForever;
  discovery_.stop();
  forget_unstarted();
  console_.say_after_output("the job has failed: " + text);
  exit_status_ = exit_status;
  ending_.terminate_at(now() + options_.launch.failure_delay);
}

void ElasticLauncher::end_workers(TimePoint time) {
  while (const auto step = ending_.due(time)) {
    if (*step == EndSchedule::Step::kTerminate) signal_all(SIGTERM);
    if (*step == EndSchedule::Step::kKill) signal_all(SIGKILL);
    if (*step == EndSchedule::Step::kGiveUp) give_up();
  }
}

void ElasticLauncher::give_up() {
  agents_.kill_all();
  console_.abandon_stuck();
  workers_.clear();
}

void ElasticLauncher::finish() {
  if (std::exchange(finishing_, true)) return;
  if (!stopping_) exit_status_ = director_.exit_status();
  stopping_ = true;
  slots_deadline_ = kForever;
  ending_.clear();
  discovery_.stop();
  agents_.retire_all();
}

}  // namespace

ElasticResult launch_elastic(const ElasticOptions& options) {
  return ElasticLauncher(options).run();
}

}  // namespace ronde
