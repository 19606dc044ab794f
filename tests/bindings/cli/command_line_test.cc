#include "bindings/cli/command_line.h"

#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "bindings/cli/commands.h"

namespace ronde {
namespace {

/// The command that is cut off `arguments` by the rules of `ronde run`.
Arguments command_in(Arguments& arguments) {
  CLI::App app;
  rename_np(arguments);
  return take_command(*add_run_command(app, std::make_shared<RunRequest>()), arguments);
}

std::vector<std::string> completed(const Arguments& words) {
  CLI::App app;
  add_run_command(app, std::make_shared<RunRequest>());
  add_timeline_command(app);
  add_completion_command(app);
  return completions(app, words);
}

}  // namespace

TEST_CASE("arguments: the command begins at the first word that no option takes") {
  Arguments arguments = {"-np", "2", "--verbose", "python", "-u", "x.py", "--lr", "1"};
  CHECK(command_in(arguments) == Arguments{"python", "-u", "x.py", "--lr", "1"});
  CHECK(arguments == Arguments{"--np", "2", "--verbose"});
}

TEST_CASE("arguments: a double dash ends the options, a later one belongs to the command") {
  Arguments marked = {"-H", "a:2", "--", "--odd-name", "--", "x"};
  CHECK(command_in(marked) == Arguments{"--odd-name", "--", "x"});
  Arguments inner = {"-np", "2", "git", "log", "--", "-np"};
  CHECK(command_in(inner) == Arguments{"git", "log", "--", "-np"});
}

TEST_CASE("arguments: values may be attached to their option") {
  Arguments arguments = {"-Ha:2", "--timeline=t.json", "run.sh"};
  CHECK(command_in(arguments) == Arguments{"run.sh"});
}

TEST_CASE("arguments: an option may take two words") {
  Arguments arguments = {"--blacklist-cooldown-range", "1", "10", "train", "2"};
  CHECK(command_in(arguments) == Arguments{"train", "2"});
  Arguments cut = {"--blacklist-cooldown-range", "1"};
  CHECK(command_in(cut).empty());
}

TEST_CASE("arguments: an unknown option is left to be reported") {
  Arguments arguments = {"--nonsense", "x"};
  CHECK(command_in(arguments) == Arguments{"x"});
  CHECK(arguments == Arguments{"--nonsense"});
}

TEST_CASE("arguments: an option without its value leaves no command") {
  Arguments arguments = {"-np"};
  CHECK(command_in(arguments).empty());
}

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
