#include "bindings/cli/launch/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

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
  std::vector<char*> argv;
  for (const std::string& word : spec.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

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
                                          .environment = {},
                                          .descriptors = {},
                                          .cpus = {},
                                          .death_signal = SIGTERM,
                                          .input = in.read.get(),
                                          .output = out.write.get()});
  if (child.pid < 0) return Status(Code::kUnavailable, child.failure.text);
  set_nonblocking(in.write.get());
  set_nonblocking(out.read.get());
  return PipedChild{child.pid, std::move(in.write), std::move(out.read)};
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

bool is_likelier_cause(int wait_status, int first) {
  if (!WIFEXITED(first) || WEXITSTATUS(first) == 0) return false;
  const bool chosen = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) > 1;
  return WIFSIGNALED(wait_status) || (chosen && WEXITSTATUS(first) == 1);
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

}  // namespace ronde
