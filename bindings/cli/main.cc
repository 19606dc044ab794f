// The `ronde` command: hands each subcommand to its own file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <memory>

#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/mpirun.h"
#include "core/base/join_text.h"

namespace {

/// CLI11 numbers its errors from 100. Ronde's status is 2, and 0 for --help and --version.
int report(const CLI::App& app, const CLI::ParseError& error) {
  const int status = app.exit(error);
  if (error.get_name() == "RuntimeError" || status == 0) return status;
  return ronde::kUsageStatus;
}

/// Ends with a list of the commands if `word` is no command of `app`.
void check_command(const CLI::App& app, const std::string& name, std::string_view word) {
  const std::vector<std::string> names = ronde::command_names(app);
  if (std::ranges::find(names, word) != names.end()) return;
  const std::string meant = ronde::similar_word(word, names);
  const std::string hint = meant.empty() ? "" : fmt::format("; perhaps \"{}\" is meant", meant);
  ronde::exit_usage(name, {ronde::Code::kInvalidArgument,
                           fmt::format("there is no command \"{}\"{}; there are: {}", word, hint,
                                       ronde::join_text(names, ", "))});
}

/// Checks the command, and the command of a command: "ronde timeline report".
void check_commands(const CLI::App& root, const ronde::Arguments& arguments) {
  const CLI::App* app = &root;
  std::string name = root.get_name();
  for (const std::string& word : arguments) {
    if (word.rfind('-', 0) == 0 || app->get_subcommands({}).empty()) return;
    check_command(*app, name, word);
    app = app->get_subcommand(word);
    name += " " + word;
  }
}

int parse(CLI::App& app, const ronde::Arguments& arguments) {
  try {
    app.parse(ronde::Arguments(arguments.rbegin(), arguments.rend()));  // CLI11 takes it reversed
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  }
  return 0;
}

/// The command that was being read: "ronde timeline report".
std::string full_name(const CLI::App* app) {
  std::string name = app->get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    name += " " + app->get_name();
  }
  return name;
}

void set_up(CLI::App& app) {
  app.set_version_flag("-v,--version", "ronde " RONDE_VERSION);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    const CLI::App* last = failed;
    while (!last->get_subcommands().empty()) last = last->get_subcommands().front();
    return fmt::format("{0}: {1}{2}\nRun {0} --help for what is allowed.\n", full_name(failed),
                       error.what(), ronde::meant_options(*last));
  });
}

int run_horovodrun(ronde::Arguments arguments) {
  CLI::App app("horovodrun, as Ronde understands it: starts N ranks of a program.", "horovodrun");
  set_up(app);
  auto request = std::make_shared<ronde::RunRequest>();
  ronde::add_horovodrun_options(app, request);
  request->command = ronde::take_command(app, arguments);
  try {
    ronde::exit_if_failed("horovodrun", ronde::expand_horovod_config(arguments));
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  }
  app.callback([request] { ronde::run_job(*request); });
  return parse(app, arguments);
}

void add_build_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("build", "Compile a framework's operations ahead of their first use");
  command->footer(
      "Example:\n  ronde build tensorflow\n"
      "Compiles against the TensorFlow of this Python into $XDG_CACHE_HOME/ronde, else\n"
      "~/.cache/ronde, and prints the file's name.\n");
  auto framework = std::make_shared<std::string>();
  command->add_option("FRAMEWORK", *framework, "The framework: tensorflow")
      ->required()
      ->check(CLI::IsMember({"tensorflow"}));
  command->callback([framework] {
    ronde::become_python(
        "ronde build", {"-m", "ronde._build", *framework},
        "it needs Python and the framework: use the ronde command of the Python package");
  });
}

int run_ronde(ronde::Arguments arguments) {
  CLI::App app("Collective communication for data-parallel training.", "ronde");
  set_up(app);
  app.require_subcommand(0, 1);
  auto request = std::make_shared<ronde::RunRequest>();
  const CLI::App* run = ronde::add_run_command(app, request);
  ronde::add_timeline_command(app);
  ronde::add_top_command(app);
  ronde::add_doctor_command(app);
  add_build_command(app);
  const CLI::App* bench = ronde::add_bench_command(app, arguments);
  ronde::add_completion_command(app);
  if (!arguments.empty() && arguments.front() == "complete-words") {
    for (const std::string& word :
         ronde::completions(app, {arguments.begin() + 1, arguments.end()})) {
      fmt::print("{}\n", word);
    }
    return 0;
  }
  if (!arguments.empty() && arguments.front() == run->get_name()) {
    ronde::Arguments rest(arguments.begin() + 1, arguments.end());
    request->command = ronde::take_command(*run, rest);
    rest.insert(rest.begin(), run->get_name());
    arguments = std::move(rest);
  }
  if (!arguments.empty() && arguments.front() == bench->get_name()) ronde::rename_np(arguments);
  if (arguments.empty()) {
    fmt::print(stderr, "{}", app.help());
    return ronde::kUsageStatus;
  }
  try {
    check_commands(app, arguments);
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  }
  return parse(app, arguments);
}

int run(const char* program, const ronde::Arguments& arguments) {
  if (arguments == ronde::Arguments{"run-agent"}) return ronde::run_agent();
  if (arguments.size() > 2 && arguments.front() == "run-agent") {
    return ronde::run_agent_on(arguments[1], {arguments.begin() + 2, arguments.end()});
  }
  if (!arguments.empty() && arguments.front() == "run-mpi-rank") {
    return ronde::run_mpi_rank({arguments.begin() + 1, arguments.end()});
  }
  return ronde::is_horovodrun(program) ? run_horovodrun(arguments) : run_ronde(arguments);
}

}  // namespace

/// The last resort: no exception ends this program without a sentence.
int main(int argc, char** argv) try {
  return run(argv[0], ronde::Arguments(argv + 1, argv + argc));
} catch (const std::exception& error) {
  fmt::print(stderr, "ronde: {}; Ronde did not expect this error: please report it\n",
             error.what());
  return 1;
}
