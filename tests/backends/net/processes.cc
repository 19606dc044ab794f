#include "tests/backends/net/processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace ronde::net {
namespace {

constexpr std::chrono::seconds kPatience{90};

/// Waits without blocking for good; -1000 where the child had to be killed.
int wait_for_exit(pid_t pid, std::chrono::steady_clock::time_point deadline) {
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return -1000;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

std::string unique_job_id() {
  static int counter = 0;
  return fmt::format("test-{}-{}", ::getpid(), ++counter);
}

Config rank_config(const std::string& job_id, int rank, int size) {
  Config config;
  config.job_id = job_id;
  config.rank = rank;
  config.size = size;
  config.start_timeout = std::chrono::seconds(30);
  return config;
}

Processes::~Processes() {
  for (const pid_t pid : pids_) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

void Processes::start(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) {
    pids_.push_back(pid);
    return;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int code = body();
  std::fflush(nullptr);
  ::_exit(code);
}

std::vector<int> Processes::wait_all() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::vector<int> codes;
  for (const pid_t pid : pids_) codes.push_back(wait_for_exit(pid, deadline));
  pids_.clear();
  return codes;
}

std::vector<int> run_ranks(int size, const std::function<int(int rank)>& body) {
  Processes processes;
  for (int rank = 0; rank < size; ++rank) {
    processes.start([&, rank] { return body(rank); });
  }
  return processes.wait_all();
}

std::vector<int> all_good(int size) { return std::vector<int>(static_cast<std::size_t>(size), 0); }

}  // namespace ronde::net
