#include "bindings/cli/launch/elastic/elastic_launcher.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>

#include "bindings/cli/launch/console.h"
#include "bindings/cli/launch/elastic/agent_pool.h"
#include "bindings/cli/launch/elastic/epoch_announcer.h"
#include "bindings/cli/launch/elastic/epoch_text.h"
#include "bindings/cli/launch/elastic/host_trials.h"
#include "bindings/cli/launch/elastic/job_ending.h"
#include "bindings/cli/launch/elastic/job_hosts.h"
#include "bindings/cli/launch/elastic/job_story.h"
#include "bindings/cli/launch/elastic/status_socket.h"
#include "bindings/cli/launch/elastic/worker_notes.h"
#include "bindings/cli/launch/elastic/worker_reports.h"
#include "bindings/cli/launch/elastic/worker_starter.h"
#include "bindings/cli/launch/elastic/worker_table.h"
#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/poll_set.h"
#include "bindings/cli/launch/process.h"

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
  void say_if_unjoined();
  void on_hosts(std::vector<HostSlots> hosts);
  void on_host_lost(const std::string& host, const std::string& why);
  void give_up(const elastic::BeginEpoch& unannounced);
  bool retire_agents();

  template <typename Note>
  void send(const std::vector<WorkerId>& workers, const Note& note) {
    for (const WorkerId id : workers) {
      if (const auto* worker = workers_.find(id)) agents_.send(worker->host, note_frame(id, note));
    }
  }

  const ElasticOptions& options_;
  SignalSource signals_;
  Console console_;
  JobStory story_;
  StatusSocket status_;
  elastic::Director director_;
  HostDiscovery discovery_;
  AgentPool agents_;
  EpochAnnouncer announcer_;
  JobHosts hosts_;
  WorkerTable workers_;
  WorkerStarter starter_;
  HostTrials trials_;
  JobEnding ending_;
  WorkerReports reports_;
  EpochText epochs_;
  TimePoint slots_deadline_ = kForever;     ///< For the first hosts.
  TimePoint director_deadline_ = kForever;  ///< The director wants to be called then.
};

ElasticLauncher::ElasticLauncher(const ElasticOptions& options)
    : options_(options),
      story_(random_hex(8), options.timeline),
      status_(story_),
      director_(options.director),
      discovery_(options.discovery,
                 {.on_hosts = [this](std::vector<HostSlots> hosts) { on_hosts(std::move(hosts)); },
                  .say = [this](const std::string& text) { console_.say(text); }}),
      agents_(options.launch,
              {.on_frame = [this](const std::string& host,
                                  const Frame& frame) { reports_.on_frame(host, frame); },
               .on_lost = [this](const std::string& host,
                                 const std::string& why) { on_host_lost(host, why); }}),
      announcer_({.send = [this](const std::string& host,
                                 const std::string& frame) { agents_.send(host, frame); },
                  .say_if_verbose =
                      [this](const std::string& text) {
                        if (options_.launch.verbose) console_.say(text);
                      },
                  .job = story_.job(),
                  .interface = options.launch.network_interface}),
      hosts_(options.start_slots),
      starter_({.options = options, .hosts = hosts_, .agents = agents_, .console = console_}),
      trials_({.send = [this](const std::string& host,
                              const std::string& frame) { agents_.send(host, frame); },
               .on_end =
                   [this](const std::string& host, const std::string& missed) {
                     director_.on_host_tried(host, missed, now());
                   },
               .interface = options.launch.network_interface,
               .start_timeout = options.launch.start_timeout}),
      ending_(options.launch, {.agents = agents_,
                               .console = console_,
                               .on_stop = [this] { start_nothing_more(); },
                               .on_give_up = [this] { workers_.clear(); }}),
      reports_({.workers = workers_,
                .director = director_,
                .story = story_,
                .console = console_,
                .agents = agents_,
                .announcer = announcer_,
                .trials = trials_,
                .ending = ending_,
                .hosts = hosts_,
                .call_folder = options.launch.call_folder}) {}

// The event loop.

ElasticResult ElasticLauncher::run() {
  const LaunchOptions& job = options_.launch;
  if (shows_whole_tracebacks(job)) console_.hold_nothing();
  if (job.times) console_.show_times();
  if (!job.output_dir.empty()) {
    if (const Status status = console_.keep_files(job.output_dir, 0, false); !status.ok()) {
      fmt::print(stderr, "ronde run: {}\n", status.message());
      return {2, {}};
    }
  }
  slots_deadline_ = now() + options_.director.elastic_timeout;
  if (options_.discovery.command.empty()) on_hosts(options_.hosts);
  carry_out();
  while (!ending_.over()) turn();
  console_.flush_partial();
  ending_.sum_up();
  say_if_unjoined();
  while (!ending_.over()) turn();
  story_.close();
  return {ending_.exit_status(), story_.parts()};
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
                   status_.deadline(), agents_.deadline(), starter_.deadline(), trials_.deadline(),
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
  starter_.on_time(time);
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
  const std::string text = reports_.joins().complaint(job.command);
  if (ending_.exit_status() == 0 && !text.empty() && job.call_frames.empty()) console_.say(text);
}

void ElasticLauncher::start_nothing_more() {
  slots_deadline_ = kForever;
  discovery_.stop();
  starter_.clear();
  workers_.remove_unstarted();
}

// Hosts.

void ElasticLauncher::on_hosts(std::vector<HostSlots> hosts) {
  if (ending_.begun()) return;
  const JobHosts::Update update = hosts_.set(std::move(hosts));
  if (!update.text.empty()) console_.say(update.text);
  if (!update.news) return;
  slots_deadline_ = kForever;
  director_.set_hosts(hosts_.places(), now());
  retire_agents();
}

void ElasticLauncher::on_host_lost(const std::string& host, const std::string& why) {
  starter_.remove_host(host);
  workers_.remove_host(host);
  trials_.on_host_lost(host);
  story_.on_host_lost(host, why);
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

// Commands.

void ElasticLauncher::operator()(const elastic::StartWorker& start) {
  if (ending_.begun()) return;
  workers_.add(start.worker, start.host);
  story_.on_start(start.worker, start.host);
  starter_.add(start, director_.epoch() == 0);
}

void ElasticLauncher::operator()(const elastic::TryHost& trial) {
  if (ending_.begun()) return;
  starter_.prepare(trial.host);
  trials_.begin(trial);
}

void ElasticLauncher::operator()(const elastic::StopWorker& stop) {
  LaunchedWorker* worker = workers_.find(stop.worker);
  if (worker == nullptr) return;
  if (starter_.remove(stop.worker)) return reports_.on_ended(stop.worker, {});
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
  story_.on_epoch(epoch);
  announcer_.begin(epoch);
  starter_.on_epoch();
}

void ElasticLauncher::operator()(const elastic::SendVoid& end) {
  if (!announcer_.defer(end.note)) send(end.workers, end.note);
}

void ElasticLauncher::operator()(const elastic::DismissWorker& dismissal) {
  send({dismissal.worker}, dismissal.note);
}

void ElasticLauncher::operator()(const elastic::Report& report) {
  story_.on_report(report.text);
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
