#include "bindings/cli/launch/process.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

constexpr int kExited1 = 1 << 8;  // as wait() says it
constexpr int kExited3 = 3 << 8;
constexpr int kKilled = 9;

TEST_CASE("child: how a process ended is told as people and shells say it") {
  CHECK(describe_wait_status(kExited1) == "exited with status 1");
  CHECK(describe_wait_status(kKilled) == "was killed by signal 9 (Killed)");
  CHECK(exit_status_of(kExited1) == 1);
  CHECK(exit_status_of(kKilled) == 137);
}

TEST_CASE("child: a killed rank is the cause also where one that exits of it is seen first") {
  CHECK(is_likelier_cause(kKilled, kExited1));
  CHECK_FALSE(is_likelier_cause(kExited1, kKilled));
  CHECK_FALSE(is_likelier_cause(kExited1, kExited1));
  CHECK_FALSE(is_likelier_cause(kKilled, kKilled));
  CHECK_FALSE(is_likelier_cause(kKilled, 0));  // nobody has failed yet
}

TEST_CASE(
    "child: a rank that chose its status is the cause also where an exception is seen first") {
  CHECK(is_likelier_cause(kExited3, kExited1));
  CHECK_FALSE(is_likelier_cause(kExited1, kExited3));
  CHECK_FALSE(is_likelier_cause(kExited3, kExited3));
  CHECK_FALSE(is_likelier_cause(kExited3, kKilled));
  CHECK_FALSE(is_likelier_cause(kExited3, 0));
}

}  // namespace

}  // namespace ronde
