#include "bindings/cli/launch/ending_watch.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bindings/cli/launch/process.h"

namespace ronde {
namespace {

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

TEST_CASE("ending watch: tells how a killed process ends before its parent has waited for it") {
  const Child child;
  EndingWatch watch;
  const TimePoint start = now();
  CHECK(watch.deadline(start) == kForever);
  watch.suspect(child.pid, start);
  CHECK(watch.due(start).empty());
  CHECK(watch.deadline(start) == start + Duration(EndingWatch::kInterval));
  ::kill(child.pid, SIGKILL);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOWAIT) == 0);
  const auto ended = watch.due(start);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0] == std::pair<pid_t, int>(child.pid, SIGKILL));
  CHECK(watch.due(start).empty());
  CHECK(watch.deadline(start) == kForever);
}

TEST_CASE("ending watch: a process that runs or is stopped is none, and is looked at for a while") {
  const Child child;
  EndingWatch watch;
  watch.suspect(child.pid, now());
  ::kill(child.pid, SIGSTOP);
  CHECK(watch.due(now()).empty());
  CHECK(watch.due(now() + Duration(EndingWatch::kLimit)).empty());
  CHECK(watch.deadline(now()) == kForever);
  CHECK_FALSE(status_of_ending(::getpid()));
}

TEST_CASE("ending watch: an end with status 0 and a process that is not there tell nothing") {
  const pid_t pid = start({"true"});
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(status_of_ending(pid));
  ::waitpid(pid, nullptr, 0);
  CHECK_FALSE(status_of_ending(pid));
}

}  // namespace
}  // namespace ronde
