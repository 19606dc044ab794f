#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <list>
#include <string>
#include <system_error>
#include <vector>

#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/messages.h"
#include "bindings/cli/launch/output.h"
#include "bindings/cli/launch/process.h"
#include "bindings/cli/launch/this_host.h"
#include "core/base/os/interfaces.h"

namespace ronde {
namespace {

/// One end of a rank's output.
struct Stream {
  int rank = 0;
  int number = 1;
  FileDescriptor fd;
};

struct RunningRank {
  int rank = 0;
  pid_t pid = -1;
};

ProbedMessage answer(const ProbeMessage& probe) {
  ProbedMessage probed;
  probed.address = "127.0.0.1";
  Result<std::string> address = probed.address;
  const char* connection = std::getenv("SSH_CONNECTION");  // NOLINT(concurrency-mt-unsafe)
  if (!probe.interface.empty()) {
    address = chosen_address(probe.interface);
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

class Agent {
 public:
  int run();

 private:
  void take_signals();
  void log_exit(pid_t pid, int wait_status);
  void send(std::string frame) { out_.push(frame); }
  void turn();
  void read_input();
  void handle(const Frame& frame);
  void start(StartMessage message);
  void start_rank(const StartMessage& message, std::size_t index,
                  const std::vector<cpu_set_t>& nodes);
  void read_signals();
  void reap();
  void read_stream(Stream& stream);
  void drain(int rank);
  void signal_ranks(int signal);
  void end_everything();
  [[nodiscard]] bool finished() const { return started_ && running_.empty() && out_.empty(); }

  AgentFrameReader input_;
  OutQueue out_;
  FileDescriptor signals_;
  ExitLog exit_log_;
  std::list<Stream> streams_;
  std::vector<RunningRank> running_;
  bool started_ = false;
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
  end_everything();
  while (!cut_off_ && !out_.empty()) turn();
  return cut_off_ ? 1 : 0;
}

void Agent::turn() {
  std::vector<pollfd> polled = {{STDIN_FILENO, POLLIN, 0},
                                {signals_.get(), POLLIN, 0},
                                {out_.empty() ? -1 : STDOUT_FILENO, POLLOUT, 0}};
  if (!out_.full()) {
    for (const Stream& stream : streams_) polled.push_back({stream.fd.get(), POLLIN, 0});
  }
  if (::poll(polled.data(), polled.size(), -1) < 0) return;
  if (polled[2].revents != 0 && !out_.write_some(STDOUT_FILENO)) cut_off_ = true;
  if (polled[0].revents != 0) read_input();
  std::size_t index = 3;
  for (Stream& stream : streams_) {
    if (index < polled.size() && polled[index++].revents != 0) read_stream(stream);
  }
  if (polled[1].revents != 0) read_signals();
  streams_.remove_if([](const Stream& stream) { return !stream.fd.valid(); });
}

void Agent::read_input() {
  std::string bytes;
  if (read_some(STDIN_FILENO, bytes) == ReadState::kEnd) cut_off_ = true;
  input_.feed(bytes);
  while (!cut_off_) {
    const auto frame = input_.next();
    if (!frame.ok()) cut_off_ = true;
    if (!frame.ok() || !frame->has_value()) return;
    handle(**frame);
  }
}

void Agent::handle(const Frame& frame) {
  if (frame.type == FrameType::kProbe) {
    if (const auto probe = decode<ProbeMessage>(frame.payload); probe.ok())
      send(encode(answer(*probe)));
  } else if (frame.type == FrameType::kStart) {
    if (auto start_message = decode<StartMessage>(frame.payload); start_message.ok()) {
      start(std::move(start_message).value());
    }
  } else if (frame.type == FrameType::kSignal) {
    if (const auto signal = decode<SignalMessage>(frame.payload); signal.ok())
      signal_ranks(signal->signal);
  } else if (frame.type == FrameType::kProcessExit) {
    if (const auto ended = decode<ProcessExit>(frame.payload); ended.ok()) exit_log_.add(*ended);
  }
}

void Agent::start(StartMessage message) {
  // There is one thread.  NOLINTBEGIN(concurrency-mt-unsafe)
  for (const std::string& entry : message.environment) {
    const std::size_t equals = entry.find('=');
    ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  if (::chdir(message.directory.c_str()) != 0) {
    const std::string why = std::generic_category().message(errno);
    fmt::print(stderr,
               "ronde run: {}: cannot enter {}: {}; the ranks start in the home directory\n",
               host_name(), message.directory, why);
  }
  const cpu_set_t allowed = allowed_cpus();
  const int threads = omp_threads(CPU_COUNT(&allowed), static_cast<int>(message.ranks.size()));
  ::setenv("OMP_NUM_THREADS", fmt::to_string(threads).c_str(), 0);
  ::setenv("PYTHONUNBUFFERED", "1", 0);
  // NOLINTEND(concurrency-mt-unsafe)
  const std::vector<cpu_set_t> nodes = numa_nodes(allowed);
  if (const Status status = exit_log_.open(); !status.ok()) {
    fmt::print(stderr, "ronde run: {}: {}\n", host_name(), status.message());
  }
  for (std::size_t i = 0; i < message.ranks.size(); ++i) start_rank(message, i, nodes);
  started_ = true;
}

void Agent::start_rank(const StartMessage& message, std::size_t index,
                       const std::vector<cpu_set_t>& nodes) {
  const RankStart& rank = message.ranks[index];
  auto out = make_pipe();
  auto err = make_pipe();
  if (!out.ok() || !err.ok()) {
    send(encode(CannotStartMessage{rank.rank, 126, "too many open files on " + host_name()}));
    return;
  }
  const int count = static_cast<int>(message.ranks.size());
  const StartedChild child = start_child({.command = message.command,
                                          .environment = rank.environment,
                                          .secret = message.secret,
                                          .exit_log = exit_log_.reading(),
                                          .cpus = cpus_for(static_cast<int>(index), count, nodes),
                                          .death_signal = SIGKILL,
                                          .output = out->write.get(),
                                          .error = err->write.get()});
  if (child.pid < 0) {
    send(encode(CannotStartMessage{rank.rank, child.failure.exit_status, child.failure.text}));
    return;
  }
  set_nonblocking(out->read.get());
  set_nonblocking(err->read.get());
  streams_.push_back({rank.rank, 1, std::move(out->read)});
  streams_.push_back({rank.rank, 2, std::move(err->read)});
  running_.push_back({rank.rank, child.pid});
  send(encode(RankMessage{rank.rank, child.pid, 0}, FrameType::kStarted));
}

void Agent::read_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo != SIGCHLD) cut_off_ = true;
  }
  reap();
}

void Agent::reap() {
  int wait_status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (running_[i].pid != pid) continue;
      drain(running_[i].rank);
      log_exit(pid, wait_status);
      send(encode(RankMessage{running_[i].rank, pid, wait_status}, FrameType::kExited));
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
}

/// The ranks of all hosts can read how this one ended.
void Agent::log_exit(pid_t pid, int wait_status) {
  const ProcessExit ended{pid, host_name(), describe_wait_status(wait_status)};
  exit_log_.add(ended);
  send(encode(ended));
}

void Agent::read_stream(Stream& stream) {
  OutputMessage message{stream.rank, stream.number, {}};
  const ReadState state = read_some(stream.fd.get(), message.bytes);
  if (state == ReadState::kData) send(encode(message));
  if (state == ReadState::kEnd) stream.fd.reset();
}

/// Passes on what a rank that has ended left in its pipes; a process of its own that lives on may
/// write more later.
void Agent::drain(int rank) {
  constexpr std::size_t kMostPipeBytes = std::size_t{1} << 20;
  for (Stream& stream : streams_) {
    if (stream.rank != rank) continue;
    OutputMessage message{rank, stream.number, {}};
    while (message.bytes.size() < kMostPipeBytes &&
           read_some(stream.fd.get(), message.bytes) == ReadState::kData) {
    }
    if (!message.bytes.empty()) send(encode(message));
  }
}

void Agent::signal_ranks(int signal) {
  for (const RunningRank& rank : running_) ::kill(-rank.pid, signal);
}

/// Kills and reaps whatever still descends from this process, up to two seconds (a process in the
/// kernel's hands may take its time; its parent's death has sent it the signal anyway).
void Agent::end_everything() {
  running_.clear();
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

int run_agent() { return Agent().run(); }

}  // namespace ronde
