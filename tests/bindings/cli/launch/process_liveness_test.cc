
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bindings/cli/launch/process.h"
#include "bindings/runtime/diagnosis/stacks.h"

namespace ronde {
namespace {

using std::chrono::seconds;

/// A child that sleeps, with a name that looks like a state.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_NAME, "a) T 1");
    for (;;) ::pause();
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void stop() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void go_on() const {
    ::kill(pid_, SIGCONT);
    ::waitpid(pid_, nullptr, WCONTINUED);
  }

 private:
  const pid_t pid_;
};

pid_t start(std::vector<std::string> command) {
  ChildSpec spec;
  spec.command = std::move(command);
  spec.death_signal = SIGKILL;
  return start_child(spec).pid;
}

/// A process that sleeps until it is killed.
struct Child {
  pid_t pid = start({"sleep", "1000"});
  Child() { REQUIRE(pid > 0); }
  ~Child() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
};

}  // namespace

TEST_CASE("process liveness: knows if a process is stopped") {
  const Sleeper child;
  CHECK_FALSE(diagnosis::is_stopped(child.pid()));
  child.stop();
  CHECK(diagnosis::is_stopped(child.pid()));
  child.go_on();
  CHECK_FALSE(diagnosis::is_stopped(child.pid()));
  CHECK_FALSE(diagnosis::is_stopped(0));
}

TEST_CASE("process liveness: reports a process once, when it has been stopped for the limit") {
  const Sleeper child;
  const std::vector<pid_t> running{child.pid()};
  const TimePoint begin = now();
  ProcessLiveness watch;
  watch.set_freeze_limit(seconds(3));
  CHECK(watch.frozen(running, begin).empty());
  child.stop();
  CHECK(watch.frozen(running, begin + seconds(1)).empty());
  CHECK(watch.deadline(begin) == begin + seconds(2));
  CHECK(watch.frozen(running, begin + seconds(3)).empty());
  CHECK(watch.frozen(running, begin + seconds(4)) == running);
  CHECK(watch.frozen(running, begin + seconds(9)).empty());
  child.go_on();
  CHECK(watch.frozen(running, begin + seconds(10)).empty());
  child.stop();
  CHECK(watch.frozen(running, begin + seconds(11)).empty());
  CHECK(watch.frozen(running, begin + seconds(14)) == running);
}

TEST_CASE("process liveness: does not look before it is time, nor without a limit") {
  const Sleeper child;
  child.stop();
  const TimePoint begin = now();
  ProcessLiveness watch;
  CHECK(watch.deadline(begin) == kForever);
  CHECK(watch.frozen({child.pid()}, begin).empty());
  watch.set_freeze_limit(seconds(1));
  CHECK(watch.frozen({child.pid()}, begin).empty());
  CHECK(watch.frozen({child.pid()}, begin + std::chrono::milliseconds(999)).empty());
  CHECK(watch.deadline(begin) == begin + seconds(1));
}

TEST_CASE("process liveness: tells how a killed process ends before its parent has waited for it") {
  const Child child;
  ProcessLiveness watch;
  const TimePoint start = now();
  CHECK(watch.deadline(start) == kForever);
  watch.suspect(child.pid, start);
  CHECK(watch.gone(start).empty());
  CHECK(watch.deadline(start) == start + Duration(ProcessLiveness::kSuspectInterval));
  ::kill(child.pid, SIGKILL);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOWAIT) == 0);
  const auto ended = watch.gone(start);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0] == std::pair<pid_t, int>(child.pid, SIGKILL));
  CHECK(watch.gone(start).empty());
  CHECK(watch.deadline(start) == kForever);
}

TEST_CASE(
    "process liveness: a process that runs or is stopped is none, and is looked at for a while") {
  const Child child;
  ProcessLiveness watch;
  watch.suspect(child.pid, now());
  ::kill(child.pid, SIGSTOP);
  CHECK(watch.gone(now()).empty());
  CHECK(watch.gone(now() + Duration(ProcessLiveness::kSuspectTime)).empty());
  CHECK(watch.deadline(now()) == kForever);
  CHECK_FALSE(status_of_ending(::getpid()));
}

TEST_CASE("process liveness: an end with status 0 and a process that is not there tell nothing") {
  const pid_t pid = start({"true"});
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(status_of_ending(pid));
  ::waitpid(pid, nullptr, 0);
  CHECK_FALSE(status_of_ending(pid));
}

}  // namespace ronde
