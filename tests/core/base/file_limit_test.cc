#include "core/base/file_limit.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace ronde {
namespace {

TEST_CASE("files up to the limit may be made, and larger ones are refused by its name") {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = 8192, .rlim_max = 8192};
    const bool limited = setrlimit(RLIMIT_FSIZE, &limit) == 0;
    const Status refused = check_file_limit(8193);
    const bool told = refused.message().find("(8192, ulimit -f)") != std::string::npos;
    _exit(limited && told && check_file_limit(8192).ok() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("without a limit any size goes") {
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  if (limit.rlim_cur == RLIM_INFINITY) CHECK(check_file_limit(std::size_t{1} << 62).ok());
}

}  // namespace
}  // namespace ronde
