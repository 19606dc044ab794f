#include "bindings/cli/launch/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "bindings/cli/launch/agent_link.h"
#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/mpirun.h"
#include "bindings/cli/launch/output.h"
#include "bindings/cli/launch/process.h"
#include "bindings/cli/launch/this_host.h"
#include "core/base/clock.h"

namespace ronde {
namespace {

constexpr std::chrono::milliseconds kPartialLineDelay{100};
constexpr std::chrono::seconds kUnevenEndDelay{10};
constexpr int kMostFailedTold = 4;

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options) : options_(options) {}
  int run();

 private:
  // Starting.
  Status start_agents();
  void probe_rendezvous();
  void start_ranks(const Rendezvous& rendezvous);
  void start_mpirun(const Rendezvous& rendezvous);
  // The event loop.
  void turn();
  void poll_once(std::vector<pollfd>& polled);
  [[nodiscard]] int poll_timeout_ms() const;
  void on_signal(int signal);
  void on_deadlines();
  // Messages of agents.
  void read_agent(Host& host);
  void on_frame(Host& host, const Frame& frame);
  void on_probed(const Frame& frame);
  void on_output(const Frame& frame);
  void on_tagged_output(int stream, std::string_view bytes);
  void pass_on(int rank, int stream, std::string_view bytes);
  void on_exited(Host& host, const RankMessage& message);
  void on_cannot_start(Host& host, const CannotStartMessage& message);
  void on_agent_gone(Host& host, const Status& why);
  // Ending.
  void fail(int exit_status, const std::string& text);
  void stop(int signal);
  void signal_all(int signal) { send_to_all(hosts_, encode(SignalMessage{signal})); }
  void cut_off();
  [[nodiscard]] bool finished() const;

  [[nodiscard]] std::string name_of(int rank) const {
    return options_.through_mpirun ? "mpirun" : fmt::format("rank {}", rank);
  }
  void say(const std::string& text) { error_.own_line("ronde run: " + text); }
  void say_if_verbose(const std::string& text) {
    if (options_.verbose) say(text);
  }

  const LaunchOptions& options_;
  SignalSource signals_;
  std::vector<Host> hosts_;
  Destination output_{STDOUT_FILENO};
  Destination error_{STDERR_FILENO};
  TaggedOutput tagged_[2];  ///< Standard output and standard error of mpirun.
  RankFiles files_;
  TimePoint start_deadline_ = kForever;
  TimePoint term_deadline_ = kForever;  ///< Others get SIGTERM.
  TimePoint kill_deadline_ = kForever;  ///< Everybody gets SIGKILL.
  TimePoint cut_deadline_ = kForever;   ///< Agents that do not answer are given up.
  TimePoint partial_deadline_ = kForever;
  TimePoint uneven_deadline_ = kForever;  ///< The ranks that still run are listed then, once.
  bool uneven_seen_ = false;
  bool probe_sent_ = false;
  int exit_status_ = 0;
  int first_failure_ = 0;  ///< Wait status of the rank that gave the exit status.
  int failed_ranks_ = 0;
};

Status Launcher::start_agents() {
  for (const HostRanks& ranks : options_.hosts) {
    Host& host = hosts_.emplace_back();
    host.ranks = &ranks;
    for (int i = 0; i < ranks.ranks; ++i) host.unfinished.insert(ranks.first_rank + i);
  }
  for (Host& host : hosts_) {
    const std::vector<std::string> command =
        host.ranks->name.empty() ? std::vector<std::string>{options_.program, "run-agent"}
                                 : ssh_command(options_.ssh, host.ranks->name);
    say_if_verbose(fmt::format("{}: {}", host.name(), fmt::join(command, " ")));
    RONDE_RETURN_IF_ERROR(host.link.start(command));
  }
  start_deadline_ = now() + options_.start_timeout;
  return {};
}

void Launcher::probe_rendezvous() {
  if (probe_sent_ || exit_status_ != 0) return;
  for (const Host& host : hosts_) {
    if (!host.link.greeted()) return;
  }
  ProbeMessage probe;
  for (const Host& host : hosts_) {
    if (host.ranks != hosts_.front().ranks) probe.towards.push_back(host.ranks->name);
  }
  if (!probe.towards.empty()) probe.interface = options_.network_interface;
  hosts_.front().link.send(encode(probe));
  probe_sent_ = true;
}

/// mpirun makes ranks of its processes by itself; they lack only the rendezvous.
void Launcher::start_mpirun(const Rendezvous& rendezvous) {
  StartMessage start;
  start.directory = std::filesystem::current_path().string();
  start.command = options_.command;
  EnvironmentList list = {"MASTER_ADDR=" + rendezvous.address,
                          fmt::format("MASTER_PORT={}", rendezvous.master_port)};
  list.insert(list.end(), options_.environment.begin(), options_.environment.end());
  start.ranks.push_back({0, std::move(list)});
  say_if_verbose(fmt::format("{}", fmt::join(options_.command, " ")));
  hosts_.front().link.send(encode(start));
}

void Launcher::start_ranks(const Rendezvous& rendezvous) {
  start_deadline_ = kForever;
  if (options_.through_mpirun) return start_mpirun(rendezvous);
  StartMessage start;
  start.directory = std::filesystem::current_path().string();
  start.command = options_.command;
  start.secret = random_hex(32);
  const EnvironmentList shared = job_environment(random_hex(8), rendezvous, hosts_.size() > 1);
  for (std::size_t index = 0; index < hosts_.size(); ++index) {
    start.ranks.clear();
    start.environment.clear();
    if (!hosts_[index].ranks->name.empty()) start.environment = forwarded_environment();
    start.environment.insert(start.environment.end(), shared.begin(), shared.end());
    for (int local = 0; local < hosts_[index].ranks->ranks; ++local) {
      EnvironmentList list = rank_environment(options_.hosts, index, local);
      list.insert(list.end(), options_.environment.begin(), options_.environment.end());
      start.ranks.push_back({hosts_[index].ranks->first_rank + local, std::move(list)});
    }
    hosts_[index].link.send(encode(start));
  }
}

int Launcher::poll_timeout_ms() const {
  const TimePoint next = std::min({start_deadline_, term_deadline_, kill_deadline_, cut_deadline_,
                                   partial_deadline_, uneven_deadline_});
  if (next == kForever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 60'000));
}

/// Agents are not read while this launcher's own output is stuck: their ranks are held up then, as
/// without a launcher.
void Launcher::poll_once(std::vector<pollfd>& polled) {
  const bool stuck = output_.queue().full() || error_.queue().full();
  polled = {{signals_.fd(), POLLIN, 0},
            {output_.queue().empty() ? -1 : output_.fd(), POLLOUT, 0},
            {error_.queue().empty() ? -1 : error_.fd(), POLLOUT, 0}};
  for (const Host& host : hosts_) {
    polled.push_back({stuck ? -1 : host.link.output(), POLLIN, 0});
    polled.push_back({host.link.wants_write() ? host.link.input() : -1, POLLOUT, 0});
  }
  if (::poll(polled.data(), polled.size(), poll_timeout_ms()) < 0) polled.clear();
}

void Launcher::turn() {
  std::vector<pollfd> polled;
  poll_once(polled);
  if (polled.empty()) return;
  if (polled[0].revents != 0) {
    while (const auto signal = signals_.next()) on_signal(*signal);
  }
  if (polled[1].revents != 0 && !output_.write()) stop(SIGPIPE);
  if (polled[2].revents != 0) (void)error_.write();
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (polled[4 + 2 * i].revents != 0) hosts_[i].link.write();
    if (polled[3 + 2 * i].revents != 0) read_agent(hosts_[i]);
  }
  probe_rendezvous();
  on_deadlines();
}

/// A first request to end is passed on as it is; a second one kills.
void Launcher::on_signal(int signal) {
  if (signal == SIGCHLD) return;
  if (signal == SIGUSR1 || signal == SIGUSR2) return signal_all(signal);
  if (kill_deadline_ != kForever) kill_deadline_ = now();
  stop(signal);
}

void Launcher::stop(int signal) {
  if (exit_status_ == 0) exit_status_ = 128 + signal;
  start_deadline_ = kForever;
  term_deadline_ = kForever;
  if (!probe_sent_) return cut_off();
  signal_all(signal == SIGPIPE ? SIGTERM : signal);
  if (kill_deadline_ == kForever) kill_deadline_ = now() + options_.grace;
}

void Launcher::on_deadlines() {
  const TimePoint time = now();
  if (time >= partial_deadline_) {
    partial_deadline_ = kForever;
    output_.flush_partial();
    error_.flush_partial();
  }
  if (time >= uneven_deadline_) {
    uneven_deadline_ = kForever;
    const std::string text = exit_status_ == 0 ? still_running(hosts_) : "";
    if (!text.empty()) say(text);
  }
  if (time >= start_deadline_) {
    for (const Host& host : hosts_) {
      if (host.link.greeted()) continue;
      fail(1, fmt::format("{} did not answer within {} s (--start-timeout)", host.name(),
                          static_cast<double>(options_.start_timeout.count()) / 1000));
    }
    cut_off();
  }
  if (time >= term_deadline_) {
    term_deadline_ = kForever;
    signal_all(SIGTERM);
    kill_deadline_ = time + options_.grace;
  }
  if (time >= kill_deadline_) {
    kill_deadline_ = kForever;
    signal_all(SIGKILL);
    cut_deadline_ = time + options_.grace;
  }
  if (time >= cut_deadline_) cut_off();
}

void Launcher::read_agent(Host& host) {
  const Status status = host.link.read([&](const Frame& frame) { on_frame(host, frame); });
  if (!status.ok()) on_agent_gone(host, status);
  if (output_.has_partial() || error_.has_partial()) partial_deadline_ = now() + kPartialLineDelay;
}

void Launcher::on_frame(Host& host, const Frame& frame) {
  if (frame.type == FrameType::kProbed) return on_probed(frame);
  if (frame.type == FrameType::kOutput) return on_output(frame);
  if (frame.type == FrameType::kProcessExit) {
    return send_to_all(hosts_, encode_frame(frame.type, frame.payload), &host);
  }
  if (frame.type == FrameType::kCannotStart) {
    if (const auto message = decode<CannotStartMessage>(frame.payload); message.ok()) {
      on_cannot_start(host, *message);
    }
    return;
  }
  const auto message = decode<RankMessage>(frame.payload);
  if (!message.ok()) return;
  if (frame.type == FrameType::kExited) return on_exited(host, *message);
  say_if_verbose(
      fmt::format("{} is pid {} on {}", name_of(message->rank), message->pid, host.name()));
}

void Launcher::on_probed(const Frame& frame) {
  const auto message = decode<ProbedMessage>(frame.payload);
  if (!message.ok() || !message->error.empty()) {
    fail(1, message.ok() ? message->error : message.status().message());
    return cut_off();
  }
  start_ranks({message->address, message->rendezvous_port, message->master_port});
}

void Launcher::on_output(const Frame& frame) {
  const auto message = decode<OutputMessage>(frame.payload);
  if (!message.ok()) return;
  if (options_.through_mpirun) return on_tagged_output(message->stream, message->bytes);
  pass_on(message->rank, message->stream, message->bytes);
}

void Launcher::on_tagged_output(int stream, std::string_view bytes) {
  for (const auto& [rank, text] : tagged_[stream == STDERR_FILENO ? 1 : 0].feed(bytes)) {
    if (rank != TaggedOutput::kMpirun) {
      pass_on(rank, stream, text);
    } else if (text != "\n") {
      say(text.substr(0, text.find('\n')));
    }
  }
}

void Launcher::pass_on(int rank, int stream, std::string_view bytes) {
  (stream == STDERR_FILENO ? error_ : output_).feed(rank, bytes);
  const std::string complaint = files_.append(rank, bytes);
  if (!complaint.empty()) say(complaint);
}

void Launcher::on_exited(Host& host, const RankMessage& message) {
  host.unfinished.erase(message.rank);
  if (message.wait_status == 0) {
    const bool first = !options_.through_mpirun && !std::exchange(uneven_seen_, true);
    if (first) uneven_deadline_ = now() + kUnevenEndDelay;
    return;
  }
  // The rank that ends last may have failed first: all are listed until they are asked to end.
  const bool asked_to_end = exit_status_ != 0 && term_deadline_ == kForever;
  if (asked_to_end || ++failed_ranks_ > kMostFailedTold) return;
  const std::string where = host.ranks->name.empty() ? "" : " on " + host.ranks->name;
  if (is_likelier_cause(message.wait_status, first_failure_)) exit_status_ = 0;
  if (exit_status_ == 0) first_failure_ = message.wait_status;
  fail(exit_status_of(message.wait_status),
       fmt::format("{} (pid {}{}) {}", name_of(message.rank), message.pid, where,
                   describe_wait_status(message.wait_status)));
}

void Launcher::on_cannot_start(Host& host, const CannotStartMessage& message) {
  host.unfinished.erase(message.rank);
  if (exit_status_ != 0) return;
  const std::string where = host.ranks->name.empty() ? "" : " on " + host.ranks->name;
  fail(message.exit_status, fmt::format("{}{}: {}", name_of(message.rank), where, message.text));
}

void Launcher::on_agent_gone(Host& host, const Status& why) {
  host.link.close_input();
  if (host.unfinished.empty()) return;
  host.unfinished.clear();
  if (exit_status_ != 0) return;
  int wait_status = 0;
  std::string text = why.message();
  if (host.link.ended() && ::waitpid(host.link.pid(), &wait_status, 0) > 0) {
    text = fmt::format("{} {}", host.ranks->name.empty() ? "the agent" : "ssh",
                       describe_wait_status(wait_status));
    if (exit_status_of(wait_status) == 127) {
      text += fmt::format("; is ronde there as {}? --remote-ronde names another path",
                          options_.ssh.remote_program);
    }
  }
  fail(1, fmt::format("{}: {}", host.name(), text));
  if (!probe_sent_) cut_off();
}

void Launcher::fail(int exit_status, const std::string& text) {
  output_.flush_partial();
  error_.flush_partial();
  say(text);
  if (exit_status_ != 0) return;
  exit_status_ = exit_status;
  term_deadline_ = now() + options_.failure_delay;
}

/// Ends all agents, and gives up what cannot be written.
void Launcher::cut_off() {
  start_deadline_ = term_deadline_ = kill_deadline_ = cut_deadline_ = kForever;
  for (Host& host : hosts_) {
    host.link.close_input();
    if (host.link.pid() > 0 && !host.ranks->name.empty()) ::kill(host.link.pid(), SIGTERM);
    host.unfinished.clear();
  }
  if (output_.queue().full()) output_.abandon();
  if (error_.queue().full()) error_.abandon();
}

bool Launcher::finished() const {
  return std::all_of(hosts_.begin(), hosts_.end(), [](const Host& h) { return h.link.ended(); }) &&
         output_.queue().empty() && error_.queue().empty();
}

int Launcher::run() {
  if (!options_.output_dir.empty()) {
    if (const Status status = files_.open(options_.output_dir, options_.size); !status.ok()) {
      fmt::print(stderr, "ronde run: {}\n", status.message());
      return 2;
    }
  }
  if (const Status status = start_agents(); !status.ok()) {
    fail(1, status.message());
    cut_off();
  }
  while (!finished()) turn();
  output_.flush_partial();
  error_.flush_partial();
  while (!finished()) turn();
  reap_agents(hosts_);
  return exit_status_;
}

}  // namespace

int launch(const LaunchOptions& options) { return Launcher(options).run(); }

}  // namespace ronde
