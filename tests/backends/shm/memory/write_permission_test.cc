#include "backends/shm/memory/write_permission.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "backends/shm/memory/memory.h"

namespace ronde::shm {
namespace {

constexpr std::chrono::milliseconds kLong{60'000};

/// The memory of a group of two.
struct Two {
  Layout layout{2};
  FileDescriptor file;
  Mapping memory;

  Two() {
    auto made = create_memory(layout.total_bytes());
    REQUIRE(made.ok());
    file = std::move(*made);
    auto mapped = map_memory(file, layout.total_bytes());
    REQUIRE(mapped.ok());
    memory = std::move(*mapped);
  }
  [[nodiscard]] WritePermission permission(int rank) const { return {layout, memory.data(), rank}; }
};

/// Tokens that could end a wait, and here do not.
struct Kept {
  AbortToken abort;
  Stop stop{abort, nullptr};
};

TEST_CASE("with a permission the write runs, and its status comes back") {
  const Two two;
  const Kept kept;
  WritePermission permission = two.permission(0);
  bool written = false;
  CHECK(permission
            .write(1, kept.stop,
                   [&] {
                     written = true;
                     return Status();
                   })
            .ok());
  CHECK(written);
  CHECK(
      permission.write(1, kept.stop, [] { return Status(Code::kRankFailure, "gone"); }).message() ==
      "gone");
}

TEST_CASE("after a rank's failure nobody writes into its memory any more") {
  const Two two;
  WritePermission mine = two.permission(0);
  WritePermission theirs = two.permission(1);
  const std::vector<pid_t> pids(2, getpid());
  mine.revoke(pids, kLong);
  Kept failed;
  failed.abort.abort(Status(Code::kRankFailure, "rank 0 died"));
  bool written = false;
  const auto write = [&] {
    written = true;
    return Status();
  };
  CHECK(theirs.write(0, failed.stop, write).message() == "rank 0 died");
  CHECK_FALSE(written);
  CHECK(mine.write(1, failed.stop, write).ok());  // the other one has not failed
}

TEST_CASE("a rank that has failed keeps its tensors until who writes there has finished") {
  const Two two;
  const std::vector<pid_t> pids(2, getpid());
  const Kept kept;
  std::atomic<bool> writing{false};
  std::atomic<bool> finished{false};
  std::thread peer([&] {
    (void)two.permission(1).write(0, kept.stop, [&] {
      writing = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      finished = true;
      return Status();
    });
  });
  while (!writing) std::this_thread::yield();
  two.permission(0).revoke(pids, kLong);
  CHECK(finished);
  peer.join();
}

TEST_CASE("a peer that died in the middle of a write holds nobody up") {
  const Two two;
  const Kept kept;
  const pid_t child = fork();
  if (child == 0) {
    (void)two.permission(1).write(0, kept.stop, []() -> Status { _exit(0); });
  }
  siginfo_t ended{};
  // Not reaped: as long as its parent does not look, it is there, and writes no more.
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  two.permission(0).revoke(std::vector<pid_t>{getpid(), child}, kLong);
  REQUIRE(waitpid(child, nullptr, 0) == child);
}

}  // namespace
}  // namespace ronde::shm
