#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "bindings/cli/commands.h"

namespace ronde {
namespace {

std::string refusal(const RunRequest& request) {
  return given_settings(request).status().message();
}

}  // namespace

TEST_CASE("run settings: the options that are given become variables") {
  RunRequest request;
  request.backend = "tcp";
  request.settings["RONDE_MAX_CONNECTIONS"] = "7";
  CHECK(given_settings(request).value() ==
        EnvironmentList{"RONDE_BACKEND=tcp", "RONDE_MAX_CONNECTIONS=7"});
  CHECK(given_settings(RunRequest()).value().empty());
}

TEST_CASE("run settings: an error names the option that the user typed, and no variable") {
  RunRequest request;
  request.backend = "tpc";
  CHECK(refusal(request).starts_with("--backend \"tpc\" is not valid; allowed: auto, shm, tcp"));
  request = {};
  request.settings["RONDE_ENCRYPTION"] = "maybe";
  CHECK(refusal(request) == "--encryption \"maybe\" is not valid; allowed: off, on, required");
  request = {};
  request.settings["RONDE_REPLICA_CHECK"] = "heal";
  CHECK(refusal(request) == "--replica-action \"heal\" is not valid; allowed: warn, fail, repair");
  request = {};
  request.settings["RONDE_METRICS_PORT"] = "99999999";
  CHECK(refusal(request) ==
        "--metrics-port \"99999999\" is not valid; allowed: whole numbers from 0 to 65535");
  request = {};
  request.settings["RONDE_ALGORITHM"] = "foo";
  CHECK(refusal(request).starts_with("--algorithm \"foo\": algorithm 'foo' is not known"));
  request = {};
  request.settings["RONDE_COMPRESSION"] = "int9";
  CHECK(refusal(request).starts_with("--compression \"int9\": compression 'int9': not known"));
}

TEST_CASE("run settings: ranks plant the faults that the option asks for, and no others") {
  RunRequest request;
  request.settings["RONDE_INJECT"] = "kill:rank=1;cut:rank=0,step=3";
  CHECK(given_settings(request).value() ==
        EnvironmentList{"RONDE_INJECT=--inject kill:rank=1;cut:rank=0,step=3"});
  request.settings["RONDE_INJECT"] = "kill:step=1";
  CHECK(
      refusal(request) ==
      "--inject \"kill:step=1\" is not valid; allowed: kill:rank=RANK[,tensor=NAME][,step=NUMBER]");
  ::setenv("RONDE_INJECT", "kill:rank=1", 1);  // NOLINT(concurrency-mt-unsafe)
  const std::string refused = refusal({});
  ::unsetenv("RONDE_INJECT");  // NOLINT(concurrency-mt-unsafe)
  CHECK(refused.starts_with("RONDE_INJECT=\"kill:rank=1\" is set, but there is no --inject"));
}

TEST_CASE("run settings: a variable that the launcher reads is refused before any rank starts") {
  ::setenv("RONDE_TRACEBACKS", "fulll", 1);  // NOLINT(concurrency-mt-unsafe)
  const std::string refused = refusal({});
  ::unsetenv("RONDE_TRACEBACKS");  // NOLINT(concurrency-mt-unsafe)
  CHECK(refused == "RONDE_TRACEBACKS=\"fulll\" is not valid; allowed: short, full");
}

}  // namespace ronde
