#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include "bindings/cli/bench/worker.h"
#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/mpirun.h"
#include "bindings/cli/launch/process.h"
#include "core/base/os/memory_file.h"

namespace ronde::bench {
namespace {

using std::chrono::milliseconds;

// Time from a rank's failure until ranks that have not noticed are killed.
constexpr milliseconds kGrace{2'000};

/// Processes that die with this one.
class Children {
 public:
  Children() = default;
  ~Children() {
    for (const pid_t pid : running_) {
      kill(-pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// 0, or the exit status for a command that could not be started.
  int start(ChildSpec spec) {
    spec.death_signal = SIGKILL;
    const StartedChild child = start_child(spec);
    if (child.pid < 0) {
      fmt::print(stderr, "ronde bench: {}\n", child.failure.text);
      return child.failure.exit_status;
    }
    running_.push_back(child.pid);
    return 0;
  }

  /// Waits for all, or for the rest until kGrace after the first failure, whose status it returns.
  int wait() {
    int failure = 0;
    milliseconds left = kGrace;
    while (!running_.empty() && left.count() > 0) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, failure == 0 ? 0 : WNOHANG);
      if (pid > 0) {
        running_.erase(std::remove(running_.begin(), running_.end(), pid), running_.end());
        if (failure == 0) failure = exit_status_of(status);
      } else if (failure != 0) {
        std::this_thread::sleep_for(milliseconds(10));
        left -= milliseconds(10);
      } else if (errno != EINTR) {
        break;
      }
    }
    return failure;
  }

 private:
  std::vector<pid_t> running_;
};

ChildSpec mpirun_spec(MpirunKind kind, const std::vector<std::string>& command, int np) {
  ChildSpec spec;
  spec.command = plain_mpirun(kind);
  spec.command.insert(spec.command.end(), {"-np", fmt::to_string(np)});
  spec.command.insert(spec.command.end(), command.begin(), command.end());
  return spec;
}

}  // namespace

Result<int> spawn_ranks(const std::vector<std::string>& command, int np, bool by_mpirun) {
  Children children;
  if (by_mpirun) {
    RONDE_ASSIGN_OR_RETURN(const MpirunKind kind, installed_mpirun());
    const int failure = children.start(mpirun_spec(kind, command, np));
    return failure != 0 ? failure : children.wait();
  }
  ChildSpec spec;
  spec.command = command;
  const auto secret = make_memory_text("ronde-secret", random_hex(32));
  if (!secret.ok()) {
    fmt::print(stderr, "ronde bench: {}\n", secret.status().message());
    return 1;
  }
  spec.descriptors = {{"RONDE_SECRET_FD", secret->get()}};
  const std::string job_id = "bench-" + random_hex(8);
  for (int rank = 0; rank < np; ++rank) {
    spec.environment = {fmt::format("RONDE_RANK={}", rank), fmt::format("RONDE_SIZE={}", np),
                        "RONDE_JOB_ID=" + job_id};
    if (const int failure = children.start(spec); failure != 0) return failure;
  }
  return children.wait();
}

}  // namespace ronde::bench
