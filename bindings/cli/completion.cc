#include "bindings/cli/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

namespace ronde {
namespace {

constexpr const char* kBash = R"(_ronde() {
  local IFS=$'\n'
  COMPREPLY=($(ronde complete-words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o bashdefault -F _ronde ronde
)";
constexpr const char* kZsh = "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n";
constexpr const char* kFish =
    "complete -c ronde -a '(ronde complete-words (commandline -opc)[2..] (commandline -ct))'\n";

std::string script_of(const std::string& shell) {
  if (shell == "fish") return kFish;
  return shell == "zsh" ? std::string(kZsh) + kBash : kBash;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

const CLI::App* command_of(const CLI::App& app, const std::string& word) {
  const auto commands = app.get_subcommands({});
  const auto found = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* command) {
    return command->get_name() == word;
  });
  return found == commands.end() ? nullptr : *found;
}

}  // namespace

std::vector<std::string> completions(const CLI::App& app, const Arguments& words) {
  if (words.empty()) return {};
  const CLI::App* command = &app;
  for (auto word = words.begin(); word + 1 != words.end() && *word != "--"; ++word) {
    if (const CLI::App* inner = command_of(*command, *word)) command = inner;
  }
  const std::string& begun = words.back();
  std::vector<std::string> names =
      begun.rfind('-', 0) == 0 ? option_names(*command) : command_names(*command);
  std::erase_if(names, [&](const std::string& name) { return name.rfind(begun, 0) != 0; });
  return names;
}

void add_completion_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "completion",
      "Print what completes this command in a shell: source <(ronde completion bash)");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell] { fmt::print("{}", script_of(*shell)); });
}

}  // namespace ronde
