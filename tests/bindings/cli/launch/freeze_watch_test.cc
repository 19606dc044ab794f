#include "bindings/cli/launch/freeze_watch.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace

TEST_CASE("freeze watch: knows if a process is stopped") {
  const Sleeper child;
  CHECK_FALSE(is_stopped(child.pid()));
  child.stop();
  CHECK(is_stopped(child.pid()));
  child.go_on();
  CHECK_FALSE(is_stopped(child.pid()));
  CHECK_FALSE(is_stopped(0));
}

TEST_CASE("freeze watch: reports a process once, when it has been stopped for the limit") {
  const Sleeper child;
  const std::vector<pid_t> running{child.pid()};
  const TimePoint begin = now();
  FreezeWatch watch;
  watch.set_limit(seconds(3));
  CHECK(watch.due(running, begin).empty());
  child.stop();
  CHECK(watch.due(running, begin + seconds(1)).empty());
  CHECK(watch.deadline() == begin + seconds(2));
  CHECK(watch.due(running, begin + seconds(3)).empty());
  CHECK(watch.due(running, begin + seconds(4)) == running);
  CHECK(watch.due(running, begin + seconds(9)).empty());
  child.go_on();
  CHECK(watch.due(running, begin + seconds(10)).empty());
  child.stop();
  CHECK(watch.due(running, begin + seconds(11)).empty());
  CHECK(watch.due(running, begin + seconds(14)) == running);
}

TEST_CASE("freeze watch: does not look before it is time, nor without a limit") {
  const Sleeper child;
  child.stop();
  const TimePoint begin = now();
  FreezeWatch watch;
  CHECK(watch.deadline() == kForever);
  CHECK(watch.due({child.pid()}, begin).empty());
  watch.set_limit(seconds(1));
  CHECK(watch.due({child.pid()}, begin).empty());
  CHECK(watch.due({child.pid()}, begin + std::chrono::milliseconds(999)).empty());
  CHECK(watch.deadline() == begin + seconds(1));
}

}  // namespace ronde
