// Ranks as real processes: forked before any thread exists, watched, and never left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "core/base/settings/config.h"

namespace ronde::net {

/// A job id that no other run uses at the same time.
std::string unique_job_id();

/// Settings of one rank of a job on this host.
Config rank_config(const std::string& job_id, int rank, int size);

/// Children of the test. Killed when destroyed.
class Processes {
 public:
  Processes() = default;
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Forks a child that runs `body` and exits with what it returns. Not once threads run.
  void start(const std::function<int()>& body);
  [[nodiscard]] pid_t pid(std::size_t index) const { return pids_[index]; }
  /// Exit codes of all, in the order they were started; -signal where a signal ended one, and -1000
  /// where it had to be killed because it did not end.
  std::vector<int> wait_all();

 private:
  std::vector<pid_t> pids_;
};

/// Runs `body(rank)` in `size` processes; their exit codes.
std::vector<int> run_ranks(int size, const std::function<int(int rank)>& body);

/// `size` zeros: what run_ranks returns where all is well.
std::vector<int> all_good(int size);

/// In a child: says what was not so, and ends it with code 1.
#define RONDE_CHILD_REQUIRE(condition)                                             \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                    \
    }                                                                              \
  } while (false)

}  // namespace ronde::net
