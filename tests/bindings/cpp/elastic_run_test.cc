// One worker in a process of its own; the test plays its launcher.
#include <doctest/doctest.h>
#include <ronde/elastic.h>
#include <ronde/ronde.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "tests/bindings/elastic/launcher_end.h"

namespace ronde {
namespace {

using namespace elastic;  // NOLINT(google-build-using-namespace)
using test::LauncherEnd;
using test::place;

constexpr int kLeft = 40;          // exit statuses of workers: run() returned false
constexpr int kJobFailed = 41;     // it threw JobFailed
constexpr int kLauncherLost = 42;  // LauncherLost
constexpr int kRefused = 43;       // InvalidArgument

/// The training function of a worker.
using Train = std::function<void(Job&, State&, std::int64_t& step)>;

/// The exit status of a worker that trains; 0 if it has finished.
int work(const Train& train) {
  try {
    auto job = init();
    std::int64_t step = 0;
    State state(job);
    state.add("step", step);
    return elastic::run(state, [&] { train(job, state, step); }) ? 0 : kLeft;
  } catch (const JobFailed&) {
    return kJobFailed;
  } catch (const LauncherLost&) {
    return kLauncherLost;
  } catch (const InvalidArgument&) {
    return kRefused;
  }
}

/// A variable of the environment, which one thread uses.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ~Variable() { ::unsetenv(name_); }  // NOLINT(concurrency-mt-unsafe)
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

class WorkerProcess {
 public:
  WorkerProcess(LauncherEnd& launcher, const Train& train) {
    const FileDescriptor end = launcher.worker_end();
    pid_ = ::fork();
    if (pid_ != 0) return;
    launcher.close();
    ::signal(SIGTERM, SIG_DFL);  // NOLINT(cert-err33-c): doctest has a handler
    const Variable descriptor("RONDE_ELASTIC_FD", std::to_string(end.get()));
    const Variable number("RONDE_WORKER", "1");
    std::_Exit(work(train));
  }
  ~WorkerProcess() {
    if (pid_ > 0 && !ended_) ::kill(pid_, SIGKILL);
    if (!ended_) (void)wait();
  }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  void signal(int number) const { ::kill(pid_, number); }
  /// As a shell has it.
  int wait() {
    int status = 0;
    ended_ = ::waitpid(pid_, &status, 0) == pid_;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
};

/// Commits until `steps` are done.
Train steps(std::int64_t count) {
  return [count](Job&, State& state, std::int64_t& step) {
    while (step < count) {
      ++step;
      state.commit();
    }
  };
}

/// Commits without end.
void train_on(Job&, State& state, std::int64_t& step) {
  for (;; ++step) {
    state.commit();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Lets the worker into an epoch of one rank.
ReadyNote begin_epoch(LauncherEnd& launcher, EpochId epoch) {
  auto ready = launcher.receive<ReadyNote>();
  launcher.send(place(epoch, 0, 1));
  return ready;
}

}  // namespace

TEST_CASE("elastic worker: it trains in its epoch, holds the state, and finishes") {
  LauncherEnd launcher;
  WorkerProcess worker(launcher, steps(3));
  const ReadyNote ready = begin_epoch(launcher, 1);
  CHECK(ready.last_epoch == 0);
  CHECK_FALSE(ready.began);
  CHECK_FALSE(ready.holds_state);
  CHECK(launcher.receive<HoldsNote>().holds_state);
  CHECK(launcher.receive<FinishedNote>().epoch == 1);
  CHECK(worker.wait() == 0);
}

TEST_CASE("elastic worker: a change ends the epoch at a commit, and nothing is restored") {
  LauncherEnd launcher;
  WorkerProcess worker(launcher, [](Job&, State& state, std::int64_t& step) {
    if (std::exchange(step, 7) == 7) return;  // in the second epoch, though it was not committed
    try {
      for (;;) state.check_host_updates();
    } catch (const HostsUpdated& updated) {
      if (updated.only_removed()) std::_Exit(2);
      throw;
    }
  });
  (void)begin_epoch(launcher, 1);
  (void)launcher.receive<HoldsNote>();
  launcher.send(ChangedNote{1, 7, Change::kAdded});
  const ReadyNote ready = begin_epoch(launcher, 2);
  CHECK(ready.last_epoch == 1);
  CHECK(ready.began);
  CHECK(ready.holds_state);
  CHECK(ready.why.empty());
  CHECK(launcher.receive<FinishedNote>().epoch == 2);
  CHECK(worker.wait() == 0);
}

TEST_CASE("elastic worker: after a failure it restores its commit and tells the launcher why") {
  LauncherEnd launcher;
  WorkerProcess worker(launcher, [failed = false](Job& job, State& state, auto& step) mutable {
    if (failed && step != 1) std::_Exit(1);
    if (failed) return;
    ++step;
    state.commit();
    step = 99;
    failed = true;
    throw RankFailure("rank 1 is planted as dead", FailedRank{job.size(), "here", 1});
  });
  (void)launcher.receive<ReadyNote>();
  launcher.send(place(1, 0, 1));
  (void)launcher.receive<HoldsNote>();
  const ReadyNote ready = begin_epoch(launcher, 2);
  CHECK(ready.why == "rank 1 is planted as dead");
  CHECK(ready.holds_state);
  CHECK(launcher.receive<FinishedNote>().epoch == 2);
  CHECK(worker.wait() == 0);
}

TEST_CASE("elastic worker: a rank that has failed is named by its worker") {
  LauncherEnd launcher;
  WorkerProcess worker(launcher, [failed = false](Job&, State&, std::int64_t&) mutable {
    if (std::exchange(failed, true)) return;
    throw RankFailure("planted", FailedRank{0, "here", 1});
  });
  (void)begin_epoch(launcher, 1);
  (void)launcher.receive<HoldsNote>();
  CHECK(begin_epoch(launcher, 2).suspects == std::vector<WorkerId>{1});
  (void)launcher.receive<FinishedNote>();
  CHECK(worker.wait() == 0);
}

/// Dismisses a worker that has begun, at its next commit.
void dismiss_in_epoch(LauncherEnd& launcher, const DismissedNote& dismissal) {
  (void)begin_epoch(launcher, 1);
  (void)launcher.receive<HoldsNote>();
  launcher.send(ChangedNote{1, 1, Change::kRemoved});
  (void)launcher.receive<ReadyNote>();
  launcher.send(dismissal);
}

TEST_CASE("elastic worker: one that is dismissed leaves run()") {
  LauncherEnd launcher;
  WorkerProcess worker(launcher, train_on);
  dismiss_in_epoch(launcher, {false, "its host has no place for it"});
  CHECK(worker.wait() == kLeft);
}

TEST_CASE("elastic worker: one that is dismissed before its first epoch ends with status 0") {
  LauncherEnd launcher;
  WorkerProcess worker(launcher, train_on);
  (void)launcher.receive<ReadyNote>();
  launcher.send(DismissedNote{false, "the job is over"});
  CHECK(worker.wait() == 0);
}

TEST_CASE("elastic worker: the dismissal of a job that failed is an error") {
  LauncherEnd launcher;
  WorkerProcess worker(launcher, train_on);
  dismiss_in_epoch(launcher, {true, "too few workers are left"});
  CHECK(worker.wait() == kJobFailed);
}

TEST_CASE("elastic worker: without its launcher it ends at its next commit") {
  LauncherEnd launcher;
  WorkerProcess worker(launcher, train_on);
  (void)begin_epoch(launcher, 1);
  (void)launcher.receive<HoldsNote>();
  launcher.close();
  CHECK(worker.wait() == kLauncherLost);
}

TEST_CASE("elastic worker: a place that cannot be used is told to the launcher") {
  const Variable limit("RONDE_START_TIMEOUT_MS", "1000");
  LauncherEnd launcher;
  WorkerProcess worker(launcher, steps(1));
  (void)launcher.receive<ReadyNote>();
  auto unreachable = place(1, 0, 2);
  unreachable.rendezvous = "127.0.0.1:1";
  launcher.send(unreachable);
  const ReadyNote ready = begin_epoch(launcher, 2);
  CHECK_FALSE(ready.began);
  CHECK(ready.last_epoch == 1);
  CHECK_FALSE(ready.why.empty());
  (void)launcher.receive<HoldsNote>();
  CHECK(launcher.receive<FinishedNote>().epoch == 2);
  CHECK(worker.wait() == 0);
}

TEST_CASE("elastic worker: a void epoch ends its meeting along the tree at once") {
  for (const int rank : {0, 1, 9}) {  // the root, a leader with one below it, and that
    CAPTURE(rank);
    LauncherEnd launcher;
    WorkerProcess worker(launcher, steps(1));
    (void)launcher.receive<ReadyNote>();
    auto nobody_comes = place(1, rank, 10);
    nobody_comes.rendezvous = "127.0.0.1:1";
    nobody_comes.rendezvous_tree = "1x10 127.0.0.9:4009";
    if (rank > 0) nobody_comes.rendezvous_tree += " 127.0.0.1:1";
    launcher.send(nobody_comes);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(launcher.quiet());
    launcher.send(VoidNote{1, "worker 5 was killed"});
    const ReadyNote ready = begin_epoch(launcher, 2);
    CHECK(ready.why.find("epoch 1 cannot begin: worker 5 was killed") != std::string::npos);
    CHECK(ready.suspects.empty());
    (void)launcher.receive<HoldsNote>();
    CHECK(launcher.receive<FinishedNote>().epoch == 2);
    CHECK(worker.wait() == 0);
  }
}

TEST_CASE("elastic worker: SIGTERM is told at once, and obeyed at the next commit") {
  LauncherEnd launcher;
  WorkerProcess worker(launcher, train_on);
  (void)begin_epoch(launcher, 1);
  (void)launcher.receive<HoldsNote>();
  worker.signal(SIGTERM);
  CHECK(launcher.receive<LeavingNote>().why == "SIGTERM");
  CHECK(launcher.receive<ReadyNote>().last_epoch == 1);
  launcher.send(DismissedNote{false, "it was asked to leave"});
  CHECK(worker.wait() == kLeft);
}

TEST_CASE("elastic worker: SIGTERM ends a child that it has forked, and the worker stays") {
  LauncherEnd launcher;
  WorkerProcess worker(launcher, [](Job&, State&, std::int64_t&) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) ::pause();
    }
    ::kill(child, SIGTERM);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM) std::_Exit(2);
  });
  (void)begin_epoch(launcher, 1);
  (void)launcher.receive<HoldsNote>();
  CHECK(launcher.receive<FinishedNote>().epoch == 1);
  CHECK(worker.wait() == 0);
}

TEST_CASE("elastic worker: RONDE_LEAVE_SIGNAL chooses the signal") {
  const Variable signal("RONDE_LEAVE_SIGNAL", "USR1");
  LauncherEnd launcher;
  WorkerProcess worker(launcher, train_on);
  (void)begin_epoch(launcher, 1);
  (void)launcher.receive<HoldsNote>();
  worker.signal(SIGUSR1);
  CHECK(launcher.receive<LeavingNote>().why == "SIGUSR1");
  worker.signal(SIGTERM);
  CHECK(worker.wait() == 128 + SIGTERM);
}

TEST_CASE("elastic worker: another RONDE_LEAVE_SIGNAL is refused") {
  const Variable signal("RONDE_LEAVE_SIGNAL", "HUP");
  LauncherEnd launcher;
  WorkerProcess worker(launcher, train_on);
  (void)begin_epoch(launcher, 1);
  CHECK(worker.wait() == kRefused);
}

}  // namespace ronde
