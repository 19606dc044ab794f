#include "tests/support/run_ranks.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <semaphore>
#include <string>

namespace ronde::test {
namespace {

/// The text that a hanging run_ranks writes to standard error before it ends its process.
struct ExitMessage {
  std::string text;
  int signal = 0;
};

[[noreturn]] void hang_in_rank_1(int stderr_fd) {
  dup2(stderr_fd, STDERR_FILENO);
  const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(SIGABRT, SIG_DFL);  // doctest's handler would report a failure
  std::binary_semaphore never(0);
  const auto body = [&](int rank) {
    if (rank == 1) never.acquire();
  };
  run_ranks(3, body, std::chrono::seconds(0));
  _exit(0);
}

ExitMessage of_hanging_ranks() {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) hang_in_rank_1(ends[1]);
  close(ends[1]);
  ExitMessage message;
  std::array<char, 256> buffer;
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    message.text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) message.signal = WTERMSIG(status);
  return message;
}

}  // namespace

TEST_CASE("run_ranks: each rank runs once, at the same time as the others") {
  std::atomic<int> arrived{0};
  std::atomic<int> sum{0};
  run_ranks(4, [&](int rank) {
    ++arrived;
    while (arrived != 4) continue;  // for ever, unless all four run
    sum += 1 << (4 * rank);
  });
  CHECK(sum == 0x1111);
}

TEST_CASE("run_ranks: ranks that hang end the program, which says which they are") {
  const ExitMessage message = of_hanging_ranks();
  CHECK(message.signal == SIGABRT);
  CHECK(message.text.find("run_ranks: after 0 s these ranks have not returned:") !=
        std::string::npos);
  CHECK(message.text.find(" 1") != std::string::npos);
}

}  // namespace ronde::test
