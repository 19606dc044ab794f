// The limit of open files, which children lower.
#include "backends/net/mesh/connection_budget.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <string>

#include "tests/backends/net/processes.h"

namespace ronde::net {
namespace {

/// Sets both limits of this process.
bool limit_files(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

rlim_t soft_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

TEST_CASE("the number of descriptors follows the peers, up to the limit of connections") {
  const std::uint64_t with_all = descriptors_needed(1000, 0);
  CHECK(with_all > 1100);
  CHECK(with_all - descriptors_needed(1000, 40) == 960);
  CHECK(descriptors_needed(10, 40) == with_all - 990);
}

TEST_CASE("a low soft limit is raised, and a high one stays") {
  CHECK(run_ranks(1, [](int) {
          RONDE_CHILD_REQUIRE(limit_files(256, 1024));
          RONDE_CHILD_REQUIRE(provide_descriptors(700).ok());
          RONDE_CHILD_REQUIRE(soft_limit() == 700);
          RONDE_CHILD_REQUIRE(provide_descriptors(300).ok());
          RONDE_CHILD_REQUIRE(soft_limit() == 700);
          return 0;
        }) == all_good(1));
}

TEST_CASE("a low hard limit is an error with the number that is needed, and the remedies") {
  CHECK(run_ranks(1, [](int) {
          RONDE_CHILD_REQUIRE(limit_files(256, 512));
          const Status status = provide_descriptors(700);
          RONDE_CHILD_REQUIRE(status.code() == Code::kResourceExhausted);
          for (const char* part : {"up to 700 open files", "hard limit is 512", "ulimit -Hn 700",
                                   "RONDE_MAX_CONNECTIONS"}) {
            RONDE_CHILD_REQUIRE(status.message().find(part) != std::string::npos);
          }
          RONDE_CHILD_REQUIRE(soft_limit() == 512);
          return 0;
        }) == all_good(1));
}

}  // namespace
}  // namespace ronde::net
