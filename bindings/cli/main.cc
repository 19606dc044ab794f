// The `ronde` command: hands each subcommand to its own file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/mpirun.h"

namespace {

/// CLI11 numbers its errors from 100. Ronde's status is 2, and 0 for --help and --version.
int report(const CLI::App& app, const CLI::ParseError& error) {
  const int status = app.exit(error);
  if (error.get_name() == "RuntimeError" || status == 0) return status;
  return ronde::kUsageStatus;
}

/// If the first word is no command, ends with a list of the commands.
void check_command(const CLI::App& app, const ronde::Arguments& arguments) {
  if (arguments.empty() || arguments.front().rfind('-', 0) == 0) return;
  std::string known;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == arguments.front()) return;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  ronde::exit_usage("ronde", {ronde::Code::kInvalidArgument,
                              fmt::format("there is no command \"{}\"; there are: {}",
                                          arguments.front(), known)});
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
  app.set_version_flag("--version", "ronde " RONDE_VERSION);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    return fmt::format("{0}: {1}\nRun {0} --help for what is allowed.\n", full_name(failed),
                       error.what());
  });
}

int run_horovodrun(ronde::Arguments arguments) {
  CLI::App app("horovodrun, as Ronde understands it: starts N ranks of a program.", "horovodrun");
  set_up(app);
  auto request = std::make_shared<ronde::RunRequest>();
  ronde::add_horovodrun_options(app, request);
  ronde::rename_np(arguments);
  request->command = ronde::take_command(app, arguments);
  app.callback([request] { ronde::run_job(*request); });
  return parse(app, arguments);
}

int run_ronde(ronde::Arguments arguments) {
  CLI::App app("Collective communication for data-parallel training.", "ronde");
  set_up(app);
  app.require_subcommand(1);
  auto request = std::make_shared<ronde::RunRequest>();
  const CLI::App* run = ronde::add_run_command(app, request);
  ronde::add_timeline_command(app);
  ronde::add_top_command(app);
  ronde::add_doctor_command(app);
  ronde::add_build_command(app);
  const CLI::App* bench = ronde::add_bench_command(app, arguments);
  if (!arguments.empty() && arguments.front() == run->get_name()) {
    ronde::Arguments rest(arguments.begin() + 1, arguments.end());
    ronde::rename_np(rest);
    request->command = ronde::take_command(*run, rest);
    rest.insert(rest.begin(), run->get_name());
    arguments = std::move(rest);
  }
  if (!arguments.empty() && arguments.front() == bench->get_name()) ronde::rename_np(arguments);
  try {
    check_command(app, arguments);
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  }
  return parse(app, arguments);
}

}  // namespace

int main(int argc, char** argv) {
  const ronde::Arguments arguments(argv + 1, argv + argc);
  if (arguments == ronde::Arguments{"run-agent"}) return ronde::run_agent();
  if (arguments.size() > 2 && arguments.front() == "run-agent") {
    return ronde::run_agent_on(arguments[1], {arguments.begin() + 2, arguments.end()});
  }
  if (!arguments.empty() && arguments.front() == "run-mpi-rank") {
    return ronde::run_mpi_rank({arguments.begin() + 1, arguments.end()});
  }
  return ronde::is_horovodrun(argv[0]) ? run_horovodrun(arguments) : run_ronde(arguments);
}
