// run_ranks: threads, and a watchdog over them.
#include "tests/support/run_ranks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/mutex.h"

namespace ronde::test {
namespace {

constexpr std::chrono::seconds kLimit{kUnderTsan ? 240 : 60};

/// The ranks that have not returned yet.
class Running {
 public:
  explicit Running(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) ranks_.insert(rank);
  }

  void returned(int rank) {
    MutexLock lock(mutex_);
    ranks_.erase(rank);
    if (ranks_.empty()) changed_.notify_all();
  }

  /// Blocks until all have returned, or ends the program.
  void wait_or_abort(std::chrono::seconds limit) {
    const TimePoint deadline = now() + limit;
    MutexLock lock(mutex_);
    while (!ranks_.empty()) {
      if (!changed_.wait_until(mutex_, deadline) && !ranks_.empty()) abort_program(limit);
    }
  }

 private:
  [[noreturn]] void abort_program(std::chrono::seconds limit) RONDE_REQUIRES(mutex_) {
    std::string names;
    for (const int rank : ranks_) names += fmt::format(" {}", rank);
    fmt::print(stderr, "run_ranks: after {} s these ranks have not returned:{}\n", limit.count(),
               names);
    std::fflush(stderr);
    std::abort();
  }

  Mutex mutex_;
  CondVar changed_;
  std::set<int> ranks_ RONDE_GUARDED_BY(mutex_);
};

void run_one(int rank, const std::function<void(int)>& body) {
  INFO("rank ", rank);
  try {
    body(rank);
  } catch (const doctest::detail::TestFailureException&) {
    // a REQUIRE has failed, and has been reported
  } catch (const std::exception& error) {
    FAIL_CHECK("exception: ", error.what());
  }
}

}  // namespace

void run_ranks(int ranks, const std::function<void(int rank)>& body) {
  run_ranks(ranks, body, kLimit);
}

void run_ranks(int ranks, const std::function<void(int rank)>& body, std::chrono::seconds limit) {
  Running running(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([rank, &body, &running] {
      run_one(rank, body);
      running.returned(rank);
    });
  }
  running.wait_or_abort(limit);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ronde::test
