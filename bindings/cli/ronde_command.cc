// The words of the command line: which command, and who reads its options.
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

namespace ronde {
namespace {

/// CLI11 numbers its errors from 100. Ronde's status is 2, and 0 for --help and --version.
int report(const CLI::App& app, const CLI::ParseError& error) {
  const int status = app.exit(error);
  if (error.get_name() == "RuntimeError" || status == 0) return status;
  return kUsageStatus;
}

/// Ends with a list of the commands if `word` is no command of `app`.
void check_command(const CLI::App& app, const std::string& name, std::string_view word) {
  const std::vector<std::string> names = command_names(app);
  if (std::ranges::find(names, word) != names.end()) return;
  const std::string meant = similar_word(word, names);
  const std::string hint = meant.empty() ? "" : fmt::format("; perhaps \"{}\" is meant", meant);
  exit_usage(name,
             {Code::kInvalidArgument, fmt::format("there is no command \"{}\"{}; there are: {}",
                                                  word, hint, join_text(names, ", "))});
}

/// Checks the command, and the command of a command: "ronde timeline report".
void check_commands(const CLI::App& root, const Arguments& arguments) {
  const CLI::App* app = &root;
  std::string name = root.get_name();
  for (const std::string& word : arguments) {
    if (word.rfind('-', 0) == 0 || app->get_subcommands({}).empty()) return;
    check_command(*app, name, word);
    app = app->get_subcommand(word);
    name += " " + word;
  }
}

int parse(CLI::App& app, const Arguments& arguments) {
  try {
    app.parse(Arguments(arguments.rbegin(), arguments.rend()));  // CLI11 takes it reversed
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
                       error.what(), meant_options(*last));
  });
}

int run_horovodrun(Arguments arguments) {
  CLI::App app("horovodrun, as Ronde understands it: starts N ranks of a program.", "horovodrun");
  set_up(app);
  auto request = std::make_shared<RunRequest>();
  add_horovodrun_options(app, request);
  request->command = take_command(app, arguments);
  try {
    exit_if_failed("horovodrun", expand_horovod_config(arguments));
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  }
  app.callback([request] { run_job(*request); });
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
    become_python("ronde build", {"-m", "ronde._build", *framework},
                  "it needs Python and the framework: use the ronde command of the Python package");
  });
}

int run_ronde(Arguments arguments) {
  CLI::App app("Collective communication for data-parallel training.", "ronde");
  set_up(app);
  app.require_subcommand(0, 1);
  auto request = std::make_shared<RunRequest>();
  const CLI::App* run = add_run_command(app, request);
  add_timeline_command(app);
  add_top_command(app);
  add_doctor_command(app);
  add_build_command(app);
  const CLI::App* bench = add_bench_command(app, arguments);
  add_completion_command(app);
  if (!arguments.empty() && arguments.front() == "complete-words") {
    for (const std::string& word : completions(app, {arguments.begin() + 1, arguments.end()})) {
      fmt::print("{}\n", word);
    }
    return 0;
  }
  if (!arguments.empty() && arguments.front() == run->get_name()) {
    Arguments rest(arguments.begin() + 1, arguments.end());
    request->command = take_command(*run, rest);
    rest.insert(rest.begin(), run->get_name());
    arguments = std::move(rest);
  }
  if (!arguments.empty() && arguments.front() == bench->get_name()) rename_np(arguments);
  if (arguments.empty()) {
    fmt::print(stderr, "{}", app.help());
    return kUsageStatus;
  }
  try {
    check_commands(app, arguments);
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  }
  return parse(app, arguments);
}

}  // namespace

int run_command_line(const char* program, const Arguments& arguments) {
  if (arguments == Arguments{"run-agent"}) return run_agent();
  if (arguments.size() > 2 && arguments.front() == "run-agent") {
    return run_agent_on(arguments[1], {arguments.begin() + 2, arguments.end()});
  }
  if (!arguments.empty() && arguments.front() == "run-mpi-rank") {
    return run_mpi_rank({arguments.begin() + 1, arguments.end()});
  }
  return is_horovodrun(program) ? run_horovodrun(arguments) : run_ronde(arguments);
}

}  // namespace ronde
