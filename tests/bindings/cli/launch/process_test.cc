#include "bindings/cli/launch/process.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

constexpr int kExited1 = 1 << 8;  // as wait() says it
constexpr int kKilled = 9;

TEST_CASE("child: how a process ended is told as people and shells say it") {
  CHECK(describe_wait_status(kExited1) == "exited with status 1");
  CHECK(describe_wait_status(kKilled) == "was killed by signal 9 (Killed)");
  CHECK(exit_status_of(kExited1) == 1);
  CHECK(exit_status_of(kKilled) == 137);
}

}  // namespace

}  // namespace ronde
