#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>

#include "backends/gloo/mesh.h"

namespace ronde::gloo_backend {
namespace {

bool blocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST_CASE("a write to a closed pipe is survived, and the mask is as before") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  close(ends[0]);
  {
    const SigpipeBlock no_signal;
    CHECK(write(ends[1], "x", 1) == -1);
    CHECK(errno == EPIPE);
  }
  CHECK_FALSE(blocked(SIGPIPE));
  close(ends[1]);
}

TEST_CASE("who had blocked the signal still has it blocked, and pending") {
  const SigpipeBlock outer;
  {
    const SigpipeBlock inner;
    raise(SIGPIPE);
  }
  CHECK(blocked(SIGPIPE));
  sigset_t pending;
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGPIPE) == 1);
}

}  // namespace
}  // namespace ronde::gloo_backend
