// The agent of one host: starts its ranks for the launcher at the other end of standard input and
// output.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/launch/event_loop.h"
#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/local_ranks.h"
#include "bindings/cli/launch/messages.h"
#include "bindings/cli/launch/process.h"
#include "bindings/cli/launch/reach_test.h"
#include "bindings/cli/launch/this_host.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/os/interfaces.h"

namespace ronde {
namespace {

/// Time for workers of an elastic job to save their state when the launcher is gone.
constexpr std::chrono::seconds kSavingTime{5};

/// Takes frames for the launcher.
using Send = std::function<void(const std::string& frame)>;

/// The address of the first of the chosen interfaces. A loopback one is of no use to another host.
Result<std::string> interface_address_for(const ProbeMessage& probe) {
  RONDE_ASSIGN_OR_RETURN(const std::string address,
                         chosen_address(listed_interfaces(probe.interface).front()));
  RONDE_ASSIGN_OR_RETURN(const Endpoint endpoint, numeric_host(address));
  const auto other = std::ranges::find_if_not(probe.towards, is_this_host);
  if (!endpoint.is_loopback() || other == probe.towards.end()) return address;
  return Status(
      Code::kInvalidArgument,
      fmt::format("--network-interface {} is {} on {}, which {} cannot reach; there are: {}",
                  probe.interface, address, host_name(), *other, describe_interfaces()));
}

/// The address of this host, as a remote shell has told it; empty where it has not. Ranks do not
/// inherit the variable. There is one thread.
std::string take_own_address() {
  constexpr const char* kVariable = "RONDE_AGENT_ADDRESS";
  const char* const text = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe)
  std::string address = text == nullptr ? "" : text;
  ::unsetenv(kVariable);  // NOLINT(concurrency-mt-unsafe)
  return address;
}

ProbedMessage answer(const ProbeMessage& probe, const std::string& own) {
  ProbedMessage probed;
  probed.address = "127.0.0.1";
  Result<std::string> address = probed.address;
  const char* connection = std::getenv("SSH_CONNECTION");  // NOLINT(concurrency-mt-unsafe)
  if (!probe.interface.empty()) {
    address = interface_address_for(probe);
  } else if (!probe.towards.empty() && !own.empty()) {
    address = own;
  } else if (!probe.towards.empty() && connection != nullptr) {
    const std::string text(connection);  // "client port server port"
    const std::size_t end = text.rfind(' ');
    const std::size_t begin = text.rfind(' ', end - 1);
    address = text.substr(begin + 1, end - begin - 1);
  } else if (!probe.towards.empty()) {
    address = address_towards(probe.towards.front());
  }
  if (!address.ok()) return {address.status().message(), {}, 0, 0};
  const Result<int> rendezvous = free_port(*address);
  const Result<int> master = free_port(*address);
  if (!rendezvous.ok()) return {rendezvous.status().message(), {}, 0, 0};
  if (!master.ok()) return {master.status().message(), {}, 0, 0};
  return {{}, *address, *rendezvous, *master};
}

/// The address of answer(), without ports.
std::string address_for(const ListenMessage& question, const std::string& own) {
  return answer({question.interface, question.towards}, own).address;
}

/// The agents that this one starts on further hosts, so that no process starts too many. Passes
/// bytes between the launcher and them, unread.
class Relay {
 public:
  explicit Relay(Send send) : send_(std::move(send)) {}

  /// Starts an agent. Its end is reported, also if it could not be started.
  void start(const StartAgentMessage& message) {
    auto child = start_piped_child(message.command);
    if (!child.ok()) return send_(encode(AgentEndMessage{message.agent, 0}));
    agents_.push_back(
        {message.agent, child->pid, std::move(child->in), std::move(child->out), {}, false});
  }
  /// Passes the launcher's bytes on to an agent; none end its input, and so the agent.
  void pass_on(const RelayMessage& message) {
    const auto agent = std::ranges::find(agents_, message.agent, &Further::number);
    if (agent == agents_.end()) return;
    agent->to.push(message.bytes);
    agent->input_ends = agent->input_ends || message.bytes.empty();
    if (agent->input_ends && agent->to.empty()) agent->in.reset();
  }
  /// Watches the agents, and their output where it is wanted.
  void watch(PollSet& set, bool output) {
    for (Further& agent : agents_) {
      set.add(agent.to.empty() ? -1 : agent.in.get(), POLLOUT, [&agent] { write(agent); });
      set.add(output ? agent.out.get() : -1, POLLIN, [this, &agent] { read(agent); });
    }
  }
  /// Notes that a child of this process has ended, if it was one of the agents. Passes on what it
  /// wrote last.
  void on_child_end(pid_t pid, int wait_status) {
    const auto agent = std::ranges::find(agents_, pid, &Further::pid);
    if (agent == agents_.end()) return;
    RelayMessage last{agent->number, {}};
    while (agent->out.valid() && read_some(agent->out.get(), last.bytes) == ReadState::kData) {
    }
    if (!last.bytes.empty()) send_(encode(last));
    send_(encode(AgentEndMessage{agent->number, wait_status}));
    agents_.erase(agent);
  }
  [[nodiscard]] bool empty() const noexcept { return agents_.empty(); }

 private:
  struct Further {
    int number = 0;
    pid_t pid = -1;
    FileDescriptor in;
    FileDescriptor out;
    OutQueue to;
    bool input_ends = false;
  };

  static void write(Further& agent) {
    const bool taken = agent.to.write_some(agent.in.get());
    if (!taken || (agent.input_ends && agent.to.empty())) agent.in.reset();
  }
  void read(Further& agent) {
    RelayMessage message{agent.number, {}};
    const ReadState state = read_some(agent.out.get(), message.bytes);
    if (state == ReadState::kData) send_(encode(message));
    if (state == ReadState::kEnd) agent.out.reset();
  }

  const Send send_;
  std::list<Further> agents_;
};

class Agent {
 public:
  /// `far`: the launcher is on another host, and the network between may be cut.
  explicit Agent(bool far) : far_(far) {}
  int run();

 private:
  void take_signals();
  void send(const std::string& frame) { out_.push(frame); }
  void turn();
  void beat(TimePoint time);
  void read_input();
  void handle(const AgentMessage& message);
  void listen(const ListenMessage& question);
  void read_signals();
  void let_workers_save();
  void end_everything();
  [[nodiscard]] bool finished() const {
    return ranks_.is_set_up() && !ranks_.elastic() && ranks_.empty() && relay_.empty() &&
           out_.empty();
  }

  MessageReader input_;
  OutQueue out_;
  FileDescriptor signals_;
  const Send send_ = [this](const std::string& frame) { send(frame); };
  LocalRanks ranks_{send_};
  Relay relay_{send_};
  ReachTest reach_{send_};
  const bool far_;
  const std::string own_address_ = take_own_address();
  Heartbeat heartbeat_;
  bool cut_off_ = false;  ///< The launcher is gone, or somebody asked this agent to end.
};

void Agent::take_signals() {
  ::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);  // NOLINT(concurrency-mt-unsafe): one thread
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

int Agent::run() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  take_signals();
  set_nonblocking(STDOUT_FILENO);
  send(fmt::format("{}{}\n", kAgentGreeting, RONDE_VERSION));
  while (!cut_off_ && !finished()) turn();
  if (ranks_.elastic()) let_workers_save();
  end_everything();
  while (!cut_off_ && !out_.empty()) turn();
  return cut_off_ ? 1 : 0;
}

/// Signals are read last: a rank that has ended is forgotten then.
void Agent::turn() {
  PollSet polled;
  polled.add(out_.empty() ? -1 : STDOUT_FILENO, POLLOUT, [this] {
    if (!out_.write_some(STDOUT_FILENO)) cut_off_ = true;
  });
  polled.add(STDIN_FILENO, POLLIN, [this] { read_input(); });
  ranks_.watch(polled, !out_.full());
  relay_.watch(polled, !out_.full());
  reach_.watch(polled);
  polled.add(signals_.get(), POLLIN, [this] { read_signals(); });
  polled.wait(std::min({ranks_.deadline(), heartbeat_.deadline(), reach_.deadline()}));
  const TimePoint time = now();
  reach_.on_time(time);
  ranks_.report_ending(time);
  ranks_.report_frozen(time);
  beat(time);
}

/// A side that cannot reach the launcher stops, as the job goes on without it.
void Agent::beat(TimePoint time) {
  if (ranks_.elastic() && heartbeat_.deadline() == kForever) heartbeat_.start(time);
  if (!heartbeat_.due(time)) return;
  send(encode(PingMessage()));
  if (far_ && heartbeat_.silent(time)) cut_off_ = true;
}

void Agent::read_input() {
  std::string bytes;
  if (read_some(STDIN_FILENO, bytes) == ReadState::kEnd) cut_off_ = true;
  input_.feed(bytes);
  heartbeat_.on_received(now());
  while (!cut_off_) {
    const auto message = input_.next();
    if (!message.ok()) cut_off_ = true;
    if (!message.ok() || !message->has_value()) return;
    handle(**message);
  }
}

void Agent::listen(const ListenMessage& question) {
  const std::string address = address_for(question, own_address_);
  const Result<int> port = reach_.listen(address);
  send(encode(ListeningMessage{question.trial, port.ok() ? join_host_port(address, *port) : ""}));
}

void Agent::handle(const AgentMessage& message) {
  std::visit(Overloaded{
                 [this](const ProbeMessage& probe) { send(encode(answer(probe, own_address_))); },
                 [this](const StartMessage& job) { ranks_.set_up(job); },
                 [this](const RankStart& rank) { ranks_.start(rank); },
                 [this](const SignalMessage& signal) { ranks_.signal(signal); },
                 [this](const NoteMessage& note) { ranks_.deliver(note); },
                 [this](const InputMessage& input) { ranks_.take_input(input.bytes); },
                 [this](const CallMessage& call) { ranks_.take_call(call.bytes); },
                 [this](const ProcessExit& ended) { ranks_.log_exit(ended); },
                 [this](const StartAgentMessage& agent) { relay_.start(agent); },
                 [this](const RelayMessage& relayed) { relay_.pass_on(relayed); },
                 [this](const ListenMessage& question) { listen(question); },
                 [this](const SuspectMessage& rank) { ranks_.suspect(rank); },
                 [this](const ReachMessage& question) { reach_.connect(question); },
                 [](const auto& /*other*/) {},
             },
             message);
}

void Agent::read_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo != SIGCHLD) cut_off_ = true;
  }
  ranks_.reap([this](pid_t pid, int wait_status) { relay_.on_child_end(pid, wait_status); });
}

/// Without a launcher no epoch begins: the workers save what they can, and end.
void Agent::let_workers_save() {
  ranks_.close_notes();
  ranks_.signal({SIGTERM});
  const TimePoint deadline = now() + kSavingTime;
  while (!ranks_.empty() && now() < deadline) {
    out_.drop();
    PollSet polled;
    ranks_.watch(polled, true);
    polled.add(signals_.get(), POLLIN, [this] { read_signals(); });
    polled.wait(deadline);
  }
}

/// Kills and reaps all descendants of this process, for at most two seconds. One that is inside the
/// kernel ends later, by the signal of its parent's death.
void Agent::end_everything() {
  ranks_.clear();
  for (int attempt = 0; attempt < 400; ++attempt) {
    kill_children();
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (pid < 0) return;
    ::usleep(5000);
  }
}

}  // namespace

int run_agent() { return Agent(true).run(); }

int run_agent_on(const std::string& host, const std::vector<std::string>& elsewhere) {
  if (is_this_host(host)) return Agent(false).run();
  fmt::print(stderr, "ronde run: {}\n", become(elsewhere).text);
  return 1;
}

}  // namespace ronde
