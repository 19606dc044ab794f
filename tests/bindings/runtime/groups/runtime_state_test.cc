#include "bindings/runtime/groups/runtime_state.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ronde {

TEST_CASE("RuntimeState: it is usable until its end, which comes once") {
  RuntimeState state;
  CHECK(state.usable().ok());
  CHECK_FALSE(state.ended());
  CHECK(state.end());
  CHECK_FALSE(state.end());
  CHECK(state.ended());
  CHECK(state.usable().code() == Code::kNotInitialized);
  CHECK(state.usable().message().find("shut down") != std::string::npos);
}

TEST_CASE("RuntimeState: a forked child can neither use nor end it") {
  RuntimeState state;
  const pid_t child = ::fork();
  if (child == 0) {
    const Status status = state.usable();
    const bool good = state.forked() && !state.end() && status.code() == Code::kNotInitialized &&
                      status.message().find("forked") != std::string::npos;
    ::_exit(good ? 0 : 1);
  }
  int how = 0;
  REQUIRE(::waitpid(child, &how, 0) == child);
  CHECK(how == 0);
  CHECK(state.usable().ok());
}

}  // namespace ronde
