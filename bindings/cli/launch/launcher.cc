#include "bindings/cli/launch/launcher.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "bindings/cli/launch/agent_link.h"
#include "bindings/cli/launch/console.h"
#include "bindings/cli/launch/end_schedule.h"
#include "bindings/cli/launch/event_loop.h"
#include "bindings/cli/launch/failure_report.h"
#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/process.h"
#include "core/base/clock.h"
#include "core/base/join_text.h"

namespace ronde {
namespace {

constexpr std::chrono::seconds kUnevenEndDelay{10};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options) : options_(options), ending_(options.grace) {}
  LaunchResult run();

 private:
  // Starting.
  Status start_agents();
  void probe_rendezvous();
  void start_ranks();
  // The event loop.
  void turn();
  [[nodiscard]] TimePoint deadline() const;
  void on_signal(int signal);
  void on_time(TimePoint time);
  void give_up_starting();
  void end_ranks(TimePoint time);
  void give_up_hosts();
  // Messages of agents.
  void on_message(Host& host, const ProbedMessage& answer);
  void on_message(Host& host, const OutputMessage& output);
  void on_message(Host& host, const AnswerMessage& answer);
  void on_message(Host& host, const StartedMessage& rank);
  void on_message(Host& host, const ExitedMessage& rank);
  void on_message(Host& host, const CannotStartMessage& message);
  void on_message(Host& host, const ProcessExit& ended) {
    send_to_all(hosts_, encode(ended), &host);
  }
  void on_message(Host& /*host*/, const auto& /*other*/) {}
  void on_tagged_output(int stream, std::string_view bytes);
  void read_input();
  void on_agent_gone(Host& host, const Status& why);
  // Ending.
  void add_end(const std::string& host, const ExitedMessage& message, bool asked);
  void lose_host(const Host& host, const std::string& why);
  void fail(int exit_status, const std::string& text);
  void begin_ending(int exit_status);
  void print_summary();
  void say_if_unjoined();
  void stop(int signal);
  void signal_all(int signal) { send_to_all(hosts_, encode(SignalMessage{signal})); }
  void cut_off();
  [[nodiscard]] bool finished() const;
  /// The ranks have been asked to end.
  [[nodiscard]] bool is_being_ended() const {
    return exit_status_ != 0 && !ending_.will_terminate();
  }

  [[nodiscard]] std::string name_of(int rank) const {
    return options_.through_mpirun ? "mpirun" : fmt::format("rank {}", rank);
  }
  void say(const std::string& text) { console_.say(text); }
  [[nodiscard]] std::size_t index_of(const Host& host) const {
    return static_cast<std::size_t>(&host - hosts_.data());
  }
  void say_if_verbose(const std::string& text) {
    if (options_.verbose) say(text);
  }

  const LaunchOptions& options_;
  SignalSource signals_;
  std::vector<Host> hosts_;
  AgentTree agents_{options_,
                    hosts_,
                    {.on_message =
                         [this](Host& host, const AgentMessage& message) {
                           std::visit([&](const auto& one) { on_message(host, one); }, message);
                         },
                     .on_gone = [this](Host& host, const Status& why) { on_agent_gone(host, why); },
                     .say_if_verbose = [this](const std::string& text) { say_if_verbose(text); }}};
  Console console_;
  EndSchedule ending_;
  TaggedOutput output_of_mpirun_{options_.mpirun_kind};
  TaggedOutput errors_of_mpirun_{options_.mpirun_kind};
  TimePoint start_deadline_ = kForever;
  TimePoint uneven_deadline_ = kForever;  ///< The ranks that still run are listed then, once.
  bool uneven_seen_ = false;
  std::optional<RendezvousProbe> probe_;  ///< Once all agents have answered.
  bool ranks_started_ = false;
  bool input_open_ = false;  ///< Standard input is passed on to a rank.
  int exit_status_ = 0;
  int stop_signal_ = 0;  ///< The signal that asked the job to end.
  FailureReport report_;
  bool host_lost_ = false;
  JoinWatch joins_;
  bool may_restart_ = false;  ///< The job ended by a rank's failure.
};

Status Launcher::start_agents() {
  hosts_ = hosts_of(options_.hosts);
  RONDE_RETURN_IF_ERROR(agents_.start());
  start_deadline_ = now() + options_.start_timeout;
  return {};
}

void Launcher::probe_rendezvous() {
  if (probe_ || exit_status_ != 0) return;
  agents_.start_further();
  for (const Host& host : hosts_) {
    if (!host.link.greeted()) return;
  }
  const RendezvousProbe& probe = probe_.emplace(
      RendezvousProbe::Args{.hosts = host_names(options_.hosts),
                            .interface = options_.network_interface,
                            .first_alone = options_.through_mpirun,
                            .say_if_verbose = [this](const auto& text) { say_if_verbose(text); }});
  for (std::size_t i = 0; i < probe.asked(); ++i) hosts_[i].link.send(encode(probe.question(i)));
}

void Launcher::start_ranks() {
  start_deadline_ = kForever;
  ranks_started_ = true;
  const std::vector<Rendezvous> places = probe_->places();
  if (options_.through_mpirun) {
    say_if_verbose(join_text(options_.command, " "));
    hosts_.front().link.send(encode(mpirun_start_message(options_, places.front())));
    return;
  }
  input_open_ = options_.agents.stdin_rank >= 0;
  const std::vector<StartMessage> messages = start_messages(options_, places);
  for (const std::string& frame : options_.call_frames) send_to_all(hosts_, frame);
  for (std::size_t i = 0; i < hosts_.size(); ++i) hosts_[i].link.send(encode(messages[i]));
}

TimePoint Launcher::deadline() const {
  return std::min({start_deadline_, ending_.deadline(), console_.deadline(), uneven_deadline_});
}

/// Agents are not read while this launcher's own output is stuck: their ranks are held up then, as
/// without a launcher.
void Launcher::turn() {
  PollSet polled;
  polled.add(signals_.fd(), POLLIN, [this] {
    while (const auto signal = signals_.next()) on_signal(*signal);
  });
  console_.watch(polled, [this] { stop(SIGPIPE); });
  for (Host& host : hosts_) {
    polled.add(host.link.wants_write() ? host.link.input() : -1, POLLOUT,
               [&host] { host.link.write(); });
    polled.add(console_.stuck() ? -1 : host.link.output(), POLLIN,
               [this, &host] { agents_.read(host); });
  }
  const Host* const reader = input_open_ ? host_of(hosts_, options_.agents.stdin_rank) : nullptr;
  const bool ready = reader != nullptr && !reader->link.wants_write();
  polled.add(ready ? STDIN_FILENO : -1, POLLIN, [this] { read_input(); });
  polled.wait(deadline());
  probe_rendezvous();
  on_time(now());
}

/// A first request to end is passed on as it is; a second one kills.
void Launcher::on_signal(int signal) {
  if (signal == SIGCHLD) return;
  if (signal == SIGUSR1 || signal == SIGUSR2) return signal_all(signal);
  ending_.hurry(now());
  stop(signal);
}

void Launcher::stop(int signal) {
  if (exit_status_ == 0) {
    exit_status_ = 128 + signal;
    stop_signal_ = signal;
  }
  may_restart_ = false;
  start_deadline_ = kForever;
  if (!ranks_started_) return cut_off();
  signal_all(signal == SIGPIPE ? SIGTERM : signal);
  ending_.on_asked(now());
}

void Launcher::on_time(TimePoint time) {
  console_.on_time(time);
  if (time >= uneven_deadline_) {
    uneven_deadline_ = kForever;
    const std::string text = exit_status_ == 0 ? still_running(hosts_) : "";
    if (!text.empty()) say(text);
  }
  if (time >= start_deadline_) give_up_starting();
  end_ranks(time);
}

void Launcher::give_up_starting() {
  for (const Host& host : hosts_) {
    if (probe_ ? probe_->has_answer(index_of(host)) : host.link.greeted()) continue;
    fail(1, fmt::format("{} did not answer within {} s (--start-timeout)", host.name(),
                        static_cast<double>(options_.start_timeout.count()) / 1000));
  }
  cut_off();
}

void Launcher::end_ranks(TimePoint time) {
  while (const auto step = ending_.due(time)) {
    if (*step == EndSchedule::Step::kTerminate) signal_all(SIGTERM);
    if (*step == EndSchedule::Step::kKill) signal_all(SIGKILL);
    if (*step == EndSchedule::Step::kGiveUp) give_up_hosts();
  }
}

void Launcher::give_up_hosts() {
  for (const Host& host : hosts_) {
    if (!host.unfinished.empty()) lose_host(host, "it did not answer when its ranks were to end");
  }
  cut_off();
}

void Launcher::read_input() {
  InputMessage input;
  const ReadState state = read_some(STDIN_FILENO, input.bytes);
  if (state == ReadState::kNothing) return;
  if (state == ReadState::kEnd) input_open_ = false;
  if (Host* const host = host_of(hosts_, options_.agents.stdin_rank))
    host->link.send(encode(input));
}

void Launcher::on_message(Host& host, const ProbedMessage& answer) {
  if (!probe_) return;
  if (const Status status = probe_->take(index_of(host), answer); !status.ok()) {
    fail(1, status.message());
    return cut_off();
  }
  if (probe_->complete() && !ranks_started_ && exit_status_ == 0) start_ranks();
}

void Launcher::on_message(Host& /*host*/, const OutputMessage& output) {
  if (options_.through_mpirun) return on_tagged_output(output.stream, output.bytes);
  console_.pass_on(output.rank, output.stream, output.bytes);
}

void Launcher::on_message(Host& /*host*/, const AnswerMessage& answer) {
  const Status status = options_.call_folder.take(answer);
  if (!status.ok()) fail(1, status.message());
}

void Launcher::on_message(Host& host, const StartedMessage& rank) {
  say_if_verbose(fmt::format("{} is pid {} on {}", name_of(rank.rank), rank.pid, host.name()));
}

void Launcher::on_tagged_output(int stream, std::string_view bytes) {
  TaggedOutput& tagged = stream == STDERR_FILENO ? errors_of_mpirun_ : output_of_mpirun_;
  for (const auto& [rank, text] : tagged.feed(bytes)) {
    if (rank != TaggedOutput::kMpirun) {
      console_.pass_on(rank, stream, text);
    } else if (text != "\n") {
      say(text.substr(0, text.find('\n')));
    }
  }
}

void Launcher::on_message(Host& host, const ExitedMessage& message) {
  host.unfinished.erase(message.rank);
  joins_.on_exited(message);
  // The rank that ends last may have failed first: all count until they are asked to end.
  const bool asked = is_being_ended();
  if (options_.through_mpirun) {
    // Its end tells nothing of single ranks; their tracebacks do.
    for (const int rank : console_.held().ranks()) {
      add_end("", {rank, 0, message.wait_status}, false);
    }
  } else {
    if (message.wait_status != 0) {
      say_if_verbose(fmt::format("{} (pid {}) {}", name_of(message.rank), message.pid,
                                 describe_wait_status(message.wait_status)));
    }
    add_end(host.ranks->name, message, asked);
  }
  if (message.wait_status == 0) {
    const bool first = !options_.through_mpirun && !std::exchange(uneven_seen_, true);
    if (first) uneven_deadline_ = now() + kUnevenEndDelay;
    return;
  }
  if (asked) return;
  if (exit_status_ == 0) may_restart_ = true;
  begin_ending(exit_status_of(message.wait_status));
}

void Launcher::on_message(Host& host, const CannotStartMessage& message) {
  host.unfinished.erase(message.rank);
  if (exit_status_ != 0) return;
  const std::string where = host.ranks->name.empty() ? "" : " on " + host.ranks->name;
  const std::string text = fmt::format("{}{}: {}", name_of(message.rank), where, message.text);
  report_.add(Mishap{.sentence = text, .lost_ranks = {}, .at = now(), .asked = false});
  fail(message.exit_status, text);
}

void Launcher::on_agent_gone(Host& host, const Status& why) {
  host.link.close_input();
  if (host.unfinished.empty()) return;
  std::string text = why.message();
  if (const auto wait_status = host.link.take_wait_status()) {
    text = describe_agent_end(options_.ssh, host.name(),
                              host.ranks->name.empty() ? "the agent" : options_.ssh.name(),
                              *wait_status);
  }
  lose_host(host, text);
  host.unfinished.clear();
  // Ctrl-C in a terminal ends ssh too. Hosts behind one that is lost are lost with it.
  const bool is_news = !std::exchange(host_lost_, true) && stop_signal_ == 0;
  if (is_news) fail(1, fmt::format("{}: {}", host.name(), text));
  if (!ranks_started_) cut_off();
}

/// Notes the loss for the summary. Before the ranks start there is no summary.
void Launcher::lose_host(const Host& host, const std::string& why) {
  if (!ranks_started_) return;
  const std::string name = host.ranks->name.empty() ? host.name() : "host " + host.name();
  report_.add(Mishap{.sentence = fmt::format("{} failed first: {}", name, why),
                     .lost_ranks = {host.unfinished.begin(), host.unfinished.end()},
                     .at = now(),
                     .asked = is_being_ended()});
}

void Launcher::fail(int exit_status, const std::string& text) {
  console_.say_after_output(text);
  if (exit_status_ == 0) options_.call_folder.write_failure(text);
  begin_ending(exit_status);
}

void Launcher::begin_ending(int exit_status) {
  if (exit_status_ != 0) return;
  exit_status_ = exit_status;
  ending_.terminate_at(now() + options_.failure_delay);
}

/// Ends all agents, and gives up what cannot be written.
void Launcher::cut_off() {
  start_deadline_ = kForever;
  ending_.clear();
  for (Host& host : hosts_) {
    host.link.close_input();
    if (host.link.pid() > 0 && !host.ranks->name.empty()) ::kill(host.link.pid(), SIGTERM);
    host.unfinished.clear();
  }
  console_.abandon_stuck();
}

bool Launcher::finished() const {
  return std::all_of(hosts_.begin(), hosts_.end(), [](const Host& h) { return h.link.ended(); }) &&
         console_.empty();
}

/// A function of ronde.run() need not join.
void Launcher::say_if_unjoined() {
  const std::string text = joins_.complaint(options_.command);
  if (!text.empty() && options_.call_frames.empty()) say(text);
}

/// Notes the end of a rank on that host, and prints its traceback or one line of it. `asked`: the
/// job was being ended by then.
void Launcher::add_end(const std::string& host, const ExitedMessage& message, bool asked) {
  HeldErrors::Ending ending = console_.held().take(message.rank);
  RankEnd end{.rank = message.rank,
              .pid = message.pid,
              .host = host,
              .wait_status = message.wait_status,
              .asked = asked,
              .printed = ending.printed,
              .failed_at = now(),
              .earlier_error = console_.held().earliest_but(message.rank),
              .error = read_error(ending.text),
              .last_line = std::move(ending.last_line)};
  if (end.error) {
    end.failed_at = ending.since;
  } else if (!ending.printed) {
    console_.pass_on_held(message.rank, ending.text);
  }
  console_.print(message.rank, report_.add(std::move(end)));
}

/// The last lines of a job that has failed. First what is left of ranks whose end nobody has told.
void Launcher::print_summary() {
  for (const int rank : console_.held().ranks()) {
    const HeldErrors::Ending left = console_.held().take(rank);
    if (!left.printed) console_.pass_on_held(rank, left.text);
  }
  const RankEnd* const cause = report_.first();
  if (may_restart_ && cause != nullptr) exit_status_ = exit_status_of(cause->wait_status);
  if (exit_status_ == 0) return say_if_unjoined();
  if (stop_signal_ != 0) {
    const std::string ends = report_.ends();
    say(fmt::format("the job was asked to end by {}{}{}", signal_text(stop_signal_),
                    ends.empty() ? "" : ": ", ends));
  } else {
    if (cause != nullptr) console_.print(cause->rank, report_.missing_traceback());
    for (const std::string& sentence : report_.summary()) say(sentence);
    if (cause != nullptr && report_.first_mishap() == nullptr) {
      options_.call_folder.write_failure(describe_wait_status(cause->wait_status), cause);
    }
  }
  const std::string folder =
      options_.output_dir.empty() ? "" : fmt::format(", {} has them", options_.output_dir);
  say(fmt::format("exit status {}{}", exit_status_,
                  report_.left_out() ? "; --verbose shows whole tracebacks" + folder : ""));
}

LaunchResult Launcher::run() {
  if (!prepare(console_, options_)) return {2, false};
  if (const Status status = start_agents(); !status.ok()) {
    fail(1, status.message());
    cut_off();
  }
  while (!finished()) turn();
  console_.flush_partial();
  print_summary();
  while (!finished()) turn();
  reap_agents(hosts_);
  return {exit_status_, may_restart_};
}

}  // namespace

bool prepare(Console& console, const LaunchOptions& options) {
  const char* const text = std::getenv("RONDE_TRACEBACKS");  // NOLINT(concurrency-mt-unsafe)
  const bool whole = options.verbose || (text != nullptr && std::string_view(text) == "full");
  if (whole) console.hold_nothing();
  if (options.times) console.show_times();
  if (options.output_dir.empty()) return true;
  const Status status = console.keep_files(options.output_dir, options.size, options.attempt > 1);
  if (!status.ok()) fmt::print(stderr, "ronde run: {}\n", status.message());
  return status.ok();
}

LaunchResult launch(const LaunchOptions& options) { return Launcher(options).run(); }

}  // namespace ronde
