#include "bindings/cli/launch/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>

#include "bindings/runtime/diagnosis/stacks.h"

namespace ronde {
namespace {

void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

/// Places `fd` (or /dev/null, or nothing) at `target`.
void place(int fd, int target, bool null_if_none) {
  if (fd < 0 && null_if_none) fd = ::open("/dev/null", O_RDONLY);
  if (fd >= 0) ::dup2(fd, target);
}

/// After fork, where there is no other thread.
void set_variable(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
}

/// Keeps a descriptor, where there is one, open in the program, and tells its number.
void pass_on(const PassedDescriptor& descriptor) {
  if (descriptor.fd < 0) return;
  ::fcntl(descriptor.fd, F_SETFD, 0);
  set_variable(descriptor.variable, std::to_string(descriptor.fd));
}

/// The words as exec takes them.
std::vector<char*> argv_of(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  return argv;
}

/// In the child: everything between fork and exec. Returns only where exec failed.
void become(const ChildSpec& spec, char* const* argv, pid_t parent) {
  ::setpgid(0, 0);
  reset_signals();
  if (spec.death_signal != 0) {
    ::prctl(PR_SET_PDEATHSIG, spec.death_signal);
    if (::getppid() != parent) ::_exit(1);
  }
  place(spec.input, STDIN_FILENO, true);
  place(spec.output, STDOUT_FILENO, false);
  place(spec.error, STDERR_FILENO, false);
  if (spec.cpus) ::sched_setaffinity(0, sizeof(cpu_set_t), &*spec.cpus);
  for (const PassedDescriptor& descriptor : spec.descriptors) pass_on(descriptor);
  for (const std::string& entry : spec.environment) {
    const std::size_t equals = entry.find('=');
    set_variable(entry.substr(0, equals), entry.substr(equals + 1));
  }
  ::execvp(argv[0], argv);
}

StartFailure start_failure(const std::string& program, int error) {
  const std::string why = std::generic_category().message(error);
  return {error == ENOENT ? 127 : 126, fmt::format("cannot run \"{}\": {}", program, why)};
}

StartedChild failed(const Status& status) { return {-1, {126, status.message()}}; }

/// The error that the child wrote before it gave up; 0 where exec has closed the pipe.
int wait_for_exec(int fd) {
  int error = 0;
  while (::read(fd, &error, sizeof(error)) < 0 && errno == EINTR) {
  }
  return error;
}

void kill_children_of(const std::string& task) {
  std::ifstream children("/proc/self/task/" + task + "/children");
  for (pid_t pid = 0; children >> pid;) {
    ::kill(-pid, SIGKILL);  // the process group that it leads, where it leads one
    ::kill(pid, SIGKILL);
  }
}

}  // namespace

StartedChild start_child(const ChildSpec& spec) {
  auto report = make_pipe();
  if (!report.ok()) return failed(report.status());
  const std::vector<char*> argv = argv_of(spec.command);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return failed(errno_status("cannot start a process"));
  if (pid == 0) {
    become(spec, argv.data(), parent);
    const int error = errno;
    (void)!::write(report->write.get(), &error, sizeof(error));
    ::_exit(127);
  }
  ::setpgid(pid, pid);
  report->write.reset();
  if (const int error = wait_for_exec(report->read.get()); error != 0) {
    ::waitpid(pid, nullptr, 0);
    return {-1, start_failure(spec.command.front(), error)};
  }
  return {pid, {}};
}

Result<PipedChild> start_piped_child(const std::vector<std::string>& command) {
  RONDE_ASSIGN_OR_RETURN(Pipe in, make_pipe());
  RONDE_ASSIGN_OR_RETURN(Pipe out, make_pipe());
  const StartedChild child = start_child({.command = command,
                                          .death_signal = SIGTERM,
                                          .input = in.read.get(),
                                          .output = out.write.get()});
  if (child.pid < 0) return Status(Code::kUnavailable, child.failure.text);
  set_nonblocking(in.write.get());
  set_nonblocking(out.read.get());
  return PipedChild{child.pid, std::move(in.write), std::move(out.read)};
}

Result<FinishedCommand> run_command(std::vector<std::string> command, bool with_errors) {
  RONDE_ASSIGN_OR_RETURN(Pipe output, make_pipe());
  const int to = output.write.get();
  const StartedChild child = start_child({.command = std::move(command),
                                          .death_signal = SIGKILL,
                                          .output = to,
                                          .error = with_errors ? to : -1});
  output.write.reset();
  if (child.pid < 0) return Status(Code::kUnavailable, child.failure.text);
  FinishedCommand finished;
  while (read_some(output.read.get(), finished.output) != ReadState::kEnd) {
  }
  ::waitpid(child.pid, &finished.wait_status, 0);
  return finished;
}

StartFailure become(const std::vector<std::string>& command) {
  if (command.empty()) return start_failure("", EINVAL);
  ::execvp(command.front().c_str(), argv_of(command).data());
  return start_failure(command.front(), errno);
}

std::string signal_text(int signal) {
  const char* name = ::strsignal(signal);  // NOLINT(concurrency-mt-unsafe): no unknown number
  return fmt::format("signal {} ({})", signal, name);
}

std::string describe_wait_status(int wait_status) {
  if (WIFSIGNALED(wait_status)) return "was killed by " + signal_text(WTERMSIG(wait_status));
  return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
}

int exit_status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

void kill_children() {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir("/proc/self/task"), &::closedir);
  if (!tasks) return;
  // A stream of this call's own.  NOLINTNEXTLINE(concurrency-mt-unsafe)
  while (const dirent* task = ::readdir(tasks.get())) {
    if (task->d_name[0] != '.') kill_children_of(task->d_name);
  }
}

SignalSource::SignalSource() {
  ::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) {
    ::sigaddset(&set, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalSource::~SignalSource() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> SignalSource::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

namespace {

constexpr unsigned kExiting = 4;  // PF_EXITING of the kernel's include/linux/sched.h

/// Fields of /proc/PID/stat, numbered from 1 as in proc(5).
struct Stat {
  unsigned flags = 0;  // field 9
  int exit_code = 0;   // field 52; 0 where this process may not know it
  bool complete = false;
};

Stat read_stat(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  Stat stat;
  const std::size_t name_end = text.rfind(')');  // "17 (name) S ...", names may have any byte
  if (name_end == std::string::npos) return stat;
  std::istringstream rest(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; rest >> field; ++number) {
    if (number == 9) stat.flags = static_cast<unsigned>(std::stoul(field));
    if (number == 52) stat.exit_code = std::stoi(field);
    stat.complete = number >= 52;
  }
  return stat;
}

bool is_exiting(const Stat& stat) { return stat.complete && (stat.flags & kExiting) != 0; }

}  // namespace

std::optional<int> status_of_ending(pid_t pid) {
  const std::string folder = fmt::format("/proc/{}", pid);
  const Stat process = read_stat(folder + "/stat");
  if (!is_exiting(process) || process.exit_code == 0) return std::nullopt;
  std::error_code error;
  std::filesystem::directory_iterator thread(folder + "/task", error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    const Stat stat = read_stat(thread->path().string() + "/stat");
    if (stat.complete && !is_exiting(stat)) return std::nullopt;  // it may have ended meanwhile
  }
  return process.exit_code;
}

std::vector<pid_t> ProcessLiveness::frozen(const std::vector<pid_t>& running, TimePoint time) {
  if (freeze_limit_.count() == 0 || time < next_look_) return {};
  next_look_ = time + kFreezeInterval;
  std::map<pid_t, TimePoint> stopped;
  std::vector<pid_t> found;
  for (const pid_t pid : running) {
    if (!diagnosis::is_stopped(pid)) continue;
    const auto known = stopped_.find(pid);
    TimePoint since = known == stopped_.end() ? time : known->second;
    if (since != kForever && time - since >= freeze_limit_) {
      found.push_back(pid);
      since = kForever;
    }
    stopped.emplace(pid, since);
  }
  stopped_ = std::move(stopped);
  return found;
}

std::vector<std::pair<pid_t, int>> ProcessLiveness::gone(TimePoint time) {
  std::vector<std::pair<pid_t, int>> found;
  for (auto suspect = suspects_.begin(); suspect != suspects_.end();) {
    const auto status = status_of_ending(suspect->first);
    if (status) found.emplace_back(suspect->first, *status);
    suspect = status || time >= suspect->second ? suspects_.erase(suspect) : std::next(suspect);
  }
  return found;
}

}  // namespace ronde
