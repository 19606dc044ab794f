#include "bindings/cli/completion.h"

#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bindings/cli/commands.h"

namespace ronde {
namespace {

std::vector<std::string> completed(const Arguments& words) {
  CLI::App app;
  add_run_command(app, std::make_shared<RunRequest>());
  add_timeline_command(app);
  add_completion_command(app);
  return completions(app, words);
}

}  // namespace

TEST_CASE("completion: a begun word becomes the commands that begin so") {
  CHECK(completed({""}) == std::vector<std::string>{"run", "timeline", "completion"});
  CHECK(completed({"ti"}) == std::vector<std::string>{"timeline"});
  CHECK(completed({"timeline", "re"}) == std::vector<std::string>{"report"});
  CHECK(completed({"nothing"}).empty());
}

TEST_CASE("completion: a dash becomes the options of the command before it") {
  const auto options = completed({"run", "--np", "2", "--time"});
  CHECK(options == std::vector<std::string>{"--timeline"});
  CHECK(completed({"timeline", "report", "--outp"}) == std::vector<std::string>{"--output"});
}

TEST_CASE("completion: the program of a job is left to the shell") {
  CHECK(completed({"run", "trai"}).empty());
}

}  // namespace ronde
