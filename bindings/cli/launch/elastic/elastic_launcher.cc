#include "bindings/cli/launch/elastic/elastic_launcher.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "bindings/cli/launch/console.h"
#include "bindings/cli/launch/elastic/agent_pool.h"
#include "bindings/cli/launch/elastic/epoch_announcer.h"
#include "bindings/cli/launch/elastic/job_ending.h"
#include "bindings/cli/launch/elastic/workers.h"
#include "bindings/cli/launch/event_loop.h"
#include "bindings/cli/launch/failure_report.h"
#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/messages.h"
#include "bindings/cli/launch/process.h"
#include "bindings/cli/launch/reach_test.h"
#include "bindings/cli/launch/traceback.h"

namespace ronde {
namespace {

using elastic::WorkerId;

/// Runs the event loop of one job, and carries out its director's commands.
class ElasticLauncher {
 public:
  explicit ElasticLauncher(const ElasticOptions& options);
  ElasticResult run();

  // The director's commands.
  void operator()(const elastic::StartWorker& start);
  void operator()(const elastic::TryHost& trial);
  void operator()(const elastic::StopWorker& stop);
  void operator()(const elastic::BeginEpoch& epoch);
  void operator()(const elastic::SendChange& change) { send(change.workers, change.note); }
  void operator()(const elastic::SendVoid& end);
  void operator()(const elastic::DismissWorker& dismissal);
  void operator()(const elastic::Report& report);
  void operator()(const elastic::FailJob& failure);

 private:
  void turn();
  void on_signal(int signal);
  void on_time(TimePoint time);
  [[nodiscard]] TimePoint deadline() const;
  void carry_out();
  void start_nothing_more();
  void start(const elastic::StartWorker& worker);
  void start_agent(const std::string& host);
  void say_if_unjoined();
  void on_hosts(std::vector<HostSlots> hosts);
  void on_host_lost(const std::string& host, const std::string& why);
  void give_up(const elastic::BeginEpoch& unannounced);
  bool retire_agents();

  // The reports of agents: the table, the director and the history take them in.
  void on_message(const std::string& host, const NoteMessage& note);
  void on_message(const std::string& host, const OutputMessage& output);
  void on_message(const std::string& host, const AnswerMessage& answer);
  void on_message(const std::string& host, const StartedMessage& message);
  void on_message(const std::string& host, const ExitedMessage& message);
  void on_message(const std::string& host, const CannotStartMessage& message);
  void on_message(const std::string& host, const FrozenMessage& message);
  void on_message(const std::string& host, const ProbedMessage& answer);
  void on_message(const std::string& host, const ListeningMessage& answer) {
    trials_.on_listening(host, answer);
  }
  void on_message(const std::string& host, const ReachedMessage& answer) {
    trials_.on_reached(host, answer);
  }
  void on_message(const std::string& host, const ProcessExit& ended) {
    agents_.send_to_others(host, encode(ended));
  }
  void on_message(const std::string& /*host*/, const auto& /*other*/) {}
  std::string print_error(const ExitedMessage& message);
  void watch_end(WorkerId suspect);
  void take_note(WorkerId worker, const elastic::ReadyNote& note);
  void take_note(WorkerId worker, const elastic::HoldsNote& note);
  void take_note(WorkerId worker, const elastic::LeavingNote& note);
  void take_note(WorkerId worker, const elastic::FinishedNote& note);
  /// A worker's process has ended, or will never start.
  void on_ended(WorkerId worker, const elastic::WorkerEnd& end);

  template <typename Note>
  void send(const std::vector<WorkerId>& workers, const Note& note) {
    for (const WorkerId id : workers) {
      if (const auto* worker = workers_.find(id)) agents_.send(worker->host, note_frame(id, note));
    }
  }

  const ElasticOptions& options_;
  SignalSource signals_;
  Console console_;
  JobHistory history_;
  StatusSocket status_;
  elastic::Director director_;
  HostDiscovery discovery_;
  AgentPool agents_;
  EpochAnnouncer announcer_;
  JobHosts hosts_;
  WorkerTable workers_;
  StartQueue waiting_;  ///< Workers that are to start.
  int first_workers_ = 0;
  bool job_runs_ = false;  ///< There was an epoch.
  HostTrials trials_;
  JobEnding ending_;
  EpochText epochs_;
  TimePoint slots_deadline_ = kForever;     ///< For the first hosts.
  TimePoint director_deadline_ = kForever;  ///< The director wants to be called then.
  std::string last_error_;                  ///< Its traceback has been printed.
  JoinWatch joins_;
};

ElasticLauncher::ElasticLauncher(const ElasticOptions& options)
    : options_(options),
      history_(random_hex(8), options.timeline),
      status_(history_),
      director_(options.director),
      discovery_(options.discovery,
                 {.on_hosts = [this](std::vector<HostSlots> hosts) { on_hosts(std::move(hosts)); },
                  .say = [this](const std::string& text) { console_.say(text); }}),
      agents_(options.launch,
              {.on_message =
                   [this](const std::string& host, const AgentMessage& message) {
                     std::visit([&](const auto& one) { on_message(host, one); }, message);
                   },
               .on_lost = [this](const std::string& host,
                                 const std::string& why) { on_host_lost(host, why); }}),
      announcer_({.send = [this](const std::string& host,
                                 const std::string& frame) { agents_.send(host, frame); },
                  .say_if_verbose =
                      [this](const std::string& text) {
                        if (options_.launch.verbose) console_.say(text);
                      },
                  .job = history_.job(),
                  .interface = options.launch.network_interface}),
      hosts_(options.start_slots),
      trials_({.send = [this](const std::string& host,
                              const std::string& frame) { agents_.send(host, frame); },
               .on_end =
                   [this](const std::string& host, const std::string& missed) {
                     director_.on_host_tried(host, missed, now());
                   },
               .interface = options.launch.network_interface,
               .start_timeout = options.launch.start_timeout}),
      ending_(options.launch, agents_, console_,
              {.on_stop = [this] { start_nothing_more(); },
               .on_give_up = [this] { workers_.clear(); }}) {}

// The event loop.

ElasticResult ElasticLauncher::run() {
  if (!prepare(console_, options_.launch)) return {2, {}};
  slots_deadline_ = now() + options_.director.elastic_timeout;
  if (options_.discovery.command.empty()) on_hosts(options_.hosts);
  carry_out();
  while (!ending_.over()) turn();
  console_.flush_partial();
  ending_.sum_up();
  say_if_unjoined();
  while (!ending_.over()) turn();
  history_.close();
  return {ending_.exit_status(), history_.parts()};
}

/// Agents are read before the signals: what they say of workers comes first.
void ElasticLauncher::turn() {
  PollSet polled;
  console_.watch(polled, [this] { ending_.stop(SIGPIPE); });
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
                   status_.deadline(), agents_.deadline(), waiting_.deadline(), trials_.deadline(),
                   slots_deadline_, director_deadline_});
}

/// A first request to end is passed on as it is; a second one kills.
void ElasticLauncher::on_signal(int signal) {
  if (signal == SIGCHLD) return discovery_.reap();
  if (signal == SIGUSR1 || signal == SIGUSR2) return agents_.signal_all(signal);
  ending_.insist(signal);
}

void ElasticLauncher::on_time(TimePoint time) {
  console_.on_time(time);
  discovery_.on_time(time);
  status_.on_time(time);
  agents_.on_time(time);
  ending_.on_time(time);
  for (const elastic::StartWorker& worker : waiting_.due(time)) start(worker);
  if (!ending_.begun()) trials_.on_time(time);
  if (time >= slots_deadline_) {
    ending_.fail(
        1, fmt::format("the hosts had fewer than {} slots for {} s (--elastic-timeout)",
                       options_.start_slots, options_.director.elastic_timeout.count() / 1000));
  }
  if (time >= director_deadline_) director_.on_time(time);
}

/// Does what the director wants, until it wants no more.
void ElasticLauncher::carry_out() {
  do {
    for (auto commands = director_.take_commands(); !commands.empty();
         commands = director_.take_commands()) {
      for (const elastic::Command& command : commands) std::visit(*this, command);
    }
  } while (workers_.take_removed() && retire_agents());
  director_deadline_ = director_.next_deadline(now());
  if (workers_.empty() && (ending_.begun() || director_.over())) {
    ending_.finish(director_.exit_status());
  }
}

/// A function of ronde.run() need not join.
void ElasticLauncher::say_if_unjoined() {
  const LaunchOptions& job = options_.launch;
  const std::string text = joins_.complaint(job.command);
  if (ending_.exit_status() == 0 && !text.empty() && job.call_frames.empty()) console_.say(text);
}

void ElasticLauncher::start_nothing_more() {
  slots_deadline_ = kForever;
  discovery_.stop();
  waiting_.clear();
  workers_.remove_unstarted();
}

/// Starts the worker on its host, where an agent is started first.
void ElasticLauncher::start(const elastic::StartWorker& start) {
  const LaunchOptions& job = options_.launch;
  if (job_runs_ || job.verbose) {
    console_.say(fmt::format("worker {} starts{}", start.worker, hosts_.where(start.host)));
  }
  RankStart rank{agent_rank(start.worker), {}};
  rank.environment = {fmt::format("{}={}", elastic::kWorkerVariable, start.worker),
                      "RONDE_ELASTIC=1", "RONDE_TRACEBACKS=full", "HOROVOD_ELASTIC=1",
                      "HOROVOD_HOSTNAME=" + start.host};
  if (!job_runs_) {  // for functions that never call init()
    rank.environment.push_back(fmt::format("HOROVOD_RANK={}", start.worker - 1));
    rank.environment.push_back(fmt::format("HOROVOD_SIZE={}", first_workers_));
  }
  rank.environment.insert(rank.environment.end(), job.environment.begin(), job.environment.end());
  if (!agents_.has(start.host)) start_agent(start.host);
  agents_.send(start.host, encode(rank));
}

void ElasticLauncher::start_agent(const std::string& host) {
  StartMessage job;
  job.directory = options_.launch.directory;
  job.command = options_.launch.command;
  job.environment = forwarded_environment();
  job.options = options_.launch.agents;
  job.elastic = true;
  job.slots = std::max(1, hosts_.slots(host));
  job.freeze_seconds = static_cast<int>(options_.freeze_timeout.count());
  agents_.start(host);
  for (const std::string& frame : options_.launch.call_frames) agents_.send(host, frame);
  agents_.send(host, encode(job));
}

// Hosts.

void ElasticLauncher::on_hosts(std::vector<HostSlots> hosts) {
  if (ending_.begun()) return;
  const JobHosts::Update update = hosts_.set(std::move(hosts));
  if (!update.text.empty()) console_.say(update.text);
  if (!update.news) return;
  slots_deadline_ = kForever;
  director_.set_hosts(hosts_.all(), now());
  retire_agents();
}

void ElasticLauncher::on_host_lost(const std::string& host, const std::string& why) {
  waiting_.remove_host(host);
  workers_.remove_host(host);
  trials_.on_host_lost(host);
  history_.on_host_lost(host, why);
  if (ending_.begun()) return;
  const auto unannounced = announcer_.take_unannounced(host);
  director_.on_host_lost(host, why, now());
  if (unannounced) give_up(*unannounced);
}

/// No worker was told of this epoch.
void ElasticLauncher::give_up(const elastic::BeginEpoch& unannounced) {
  for (const elastic::EpochWorker& member : unannounced.workers) {
    LaunchedWorker* worker = workers_.find(member.worker);
    if (worker == nullptr) continue;
    worker->ready.last_epoch = unannounced.epoch;  // as if it had been told, and failed
    worker->ready.began = false;
    director_.on_ready(member.worker, worker->ready, now());
  }
}

/// Hosts that are not listed any more keep their agent until their last worker has ended. True if
/// an epoch is given up, as it waited for an answer of theirs.
bool ElasticLauncher::retire_agents() {
  bool given_up = false;
  for (const std::string& host : agents_.hosts()) {
    if (hosts_.lists(host) || workers_.any_on(host)) continue;
    agents_.retire(host);
    const auto unannounced = announcer_.take_unannounced(host);
    if (unannounced) give_up(*unannounced);
    given_up |= unannounced.has_value();
  }
  return given_up;
}

// Reports of agents.

void ElasticLauncher::on_message(const std::string& host, const ProbedMessage& answer) {
  const Status status = announcer_.on_probed(host, answer);
  if (!status.ok()) ending_.fail(1, status.message());
}

void ElasticLauncher::on_message(const std::string& /*host*/, const OutputMessage& output) {
  console_.pass_on(output.rank, output.stream, output.bytes);
}

void ElasticLauncher::on_message(const std::string& /*host*/, const AnswerMessage& answer) {
  const Status status = options_.launch.call_folder.take(answer);
  if (!status.ok()) ending_.fail(1, status.message());
}

// Notes.

void ElasticLauncher::on_message(const std::string& host, const NoteMessage& note) {
  const WorkerId id = worker_of(note.rank);
  const LaunchedWorker* worker = workers_.find(id);
  if (worker == nullptr || worker->host != host) return;
  const Status status =
      visit_note(note.bytes, [&](const auto& content) { take_note(id, content); });
  if (!status.ok()) console_.say(fmt::format("worker {}: {}", id, status.message()));
}

void ElasticLauncher::take_note(WorkerId id, const elastic::ReadyNote& note) {
  for (const WorkerId suspect : note.suspects) watch_end(suspect);
  workers_.find(id)->ready = note;
  history_.on_ready(id, note);
  director_.on_ready(id, note, now());
}

/// Has the agent report the suspect's end at once: the next epoch waits for its end, or for the
/// suspect.
void ElasticLauncher::watch_end(WorkerId suspect) {
  const LaunchedWorker* worker = workers_.find(suspect);
  if (worker != nullptr) {
    agents_.send(worker->host, encode(SuspectMessage{agent_rank(suspect)}));
  }
}

void ElasticLauncher::take_note(WorkerId id, const elastic::HoldsNote& note) {
  workers_.find(id)->ready.holds_state = note.holds_state;
  if (note.holds_state) director_.on_holds(id);
}

void ElasticLauncher::take_note(WorkerId id, const elastic::LeavingNote& note) {
  console_.say(fmt::format("worker {} leaves{}{}", id, note.why.empty() ? "" : ": ", note.why));
  ending_.let_a_worker_save();
  history_.on_leaving(id);
  director_.on_leaving(id, now());
}

void ElasticLauncher::take_note(WorkerId id, const elastic::FinishedNote& /*note*/) {
  history_.on_finished(id);
  director_.on_finished(id, now());
}

// Processes.

void ElasticLauncher::on_message(const std::string& /*host*/, const StartedMessage& message) {
  const WorkerId id = worker_of(message.rank);
  LaunchedWorker* worker = workers_.find(id);
  if (worker == nullptr) return;
  worker->pid = message.pid;
  history_.on_started(id, message.pid);
  director_.on_started(id, message.copy_step);
}

/// Prints the worker's traceback. Returns its exception, with a colon before it.
std::string ElasticLauncher::print_error(const ExitedMessage& message) {
  const HeldErrors::Ending ending = console_.held().take(message.rank);
  const auto error = read_error(ending.text);
  if (!ending.printed && (!error || message.wait_status == 0)) {
    console_.pass_on_held(message.rank, ending.text);
  } else if (!ending.printed) {
    const std::string sentence = error->error.sentence();
    const bool known = std::exchange(last_error_, sentence) == sentence;
    const bool in_short = known || error->error.consequence || ending_.begun();
    console_.print(message.rank, in_short ? std::vector{one_line(*error)} : error->shorter);
  }
  return error && message.wait_status != 0 ? ": " + error->error.sentence() : "";
}

void ElasticLauncher::on_message(const std::string& /*host*/, const ExitedMessage& message) {
  joins_.on_exited(message);
  const WorkerId id = worker_of(message.rank);
  const LaunchedWorker* worker = workers_.find(id);
  if (worker == nullptr) return;
  const std::string text =
      fmt::format("(pid {}{}) {}{}", message.pid, hosts_.where(worker->host),
                  describe_wait_status(message.wait_status), print_error(message));
  if (message.wait_status != 0 && !worker->stopped && !ending_.begun()) {
    console_.say_after_output(fmt::format("worker {} {}", id, text));
  }
  on_ended(id, {exit_status_of(message.wait_status), text, message.copy_step});
}

void ElasticLauncher::on_message(const std::string& host, const CannotStartMessage& message) {
  const WorkerId id = worker_of(message.rank);
  if (workers_.find(id) == nullptr) return;
  const std::string text = fmt::format("cannot start{}: {}", hosts_.where(host), message.text);
  if (!ending_.begun()) console_.say(fmt::format("worker {} {}", id, text));
  on_ended(id, {message.exit_status, text});
}

void ElasticLauncher::on_message(const std::string& /*host*/, const FrozenMessage& message) {
  const std::chrono::seconds stopped_for(message.seconds);
  director_.on_frozen(worker_of(message.rank), stopped_for, now());
}

void ElasticLauncher::on_ended(WorkerId id, const elastic::WorkerEnd& end) {
  const LaunchedWorker* worker = workers_.find(id);
  const bool stopped = worker != nullptr && worker->stopped;
  history_.on_ended(id, end,
                    ending_.begun() ? EndCause::kJobEnds
                    : stopped       ? EndCause::kStopped
                                    : EndCause::kItself);
  workers_.remove(id);
  director_.on_ended(id, end, now());
}

// Commands.

void ElasticLauncher::operator()(const elastic::StartWorker& start) {
  if (ending_.begun()) return;
  workers_.add(start.worker, start.host);
  history_.on_start(start.worker, start.host);
  const bool first = director_.epoch() == 0;
  waiting_.add(start, first, now());
  if (first) ++first_workers_;
}

void ElasticLauncher::operator()(const elastic::TryHost& trial) {
  if (ending_.begun()) return;
  if (!agents_.has(trial.host)) start_agent(trial.host);
  trials_.begin(trial);
}

void ElasticLauncher::operator()(const elastic::StopWorker& stop) {
  LaunchedWorker* worker = workers_.find(stop.worker);
  if (worker == nullptr) return;
  if (waiting_.remove(stop.worker)) return on_ended(stop.worker, {});
  worker->stopped = true;
  agents_.send(worker->host, encode(SignalMessage{SIGKILL, agent_rank(stop.worker)}));
}

void ElasticLauncher::operator()(const elastic::BeginEpoch& epoch) {
  if (ending_.begun()) {
    for (const elastic::EpochWorker& worker : epoch.workers) {
      (*this)(elastic::DismissWorker{worker.worker, {false, "the job was asked to end"}});
    }
    return;
  }
  console_.say(epochs_.begin(epoch));
  history_.on_epoch(epoch);
  announcer_.begin(epoch);
  job_runs_ = true;
  waiting_.on_epoch(now());
}

void ElasticLauncher::operator()(const elastic::SendVoid& end) {
  if (!announcer_.defer(end.note)) send(end.workers, end.note);
}

void ElasticLauncher::operator()(const elastic::DismissWorker& dismissal) {
  send({dismissal.worker}, dismissal.note);
}

void ElasticLauncher::operator()(const elastic::Report& report) {
  history_.on_report(report.text);
  if (!ending_.begun()) console_.say(report.text);
}

void ElasticLauncher::operator()(const elastic::FailJob& failure) {
  ending_.fail(failure.exit_status, failure.text);
}

}  // namespace

ElasticResult launch_elastic(const ElasticOptions& options) {
  return ElasticLauncher(options).run();
}

}  // namespace ronde
