#include "bindings/cli/command_line.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include "bindings/cli/launch/process.h"
#include "bindings/cli/launch/ssh.h"
#include "core/base/join_text.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/os/folders.h"
#include "core/base/settings/setting_names.h"

namespace ronde {
namespace {

/// How many of the next words are values of this option.
int values_after(const CLI::App& app, const std::string& word) {
  if (word.find('=') != std::string::npos) return 0;
  if (word.size() > 2 && word[1] != '-') return 0;  // -Hvalue
  const CLI::Option* option = app.get_option_no_throw(word);
  return option == nullptr ? 0 : option->get_items_expected_max();
}

/// Words of several letters behind one dash, and how CLI11 knows them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kLongShort = {{
    {"-np", "--np"},
    {"-cb", "--check-build"},
    {"-hostfile", "--hostfile"},
    {"-prefix-timestamp", "--prefix-output-with-timestamp"},
}};

void rename_long_short(std::string& word) {
  for (const auto& [from, to] : kLongShort) {
    if (word == from) word = to;
  }
}

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

namespace fs = std::filesystem;

Status refused(std::string_view option, const std::string& path, std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("{} {}: {}", option, path, why)};
}

std::string last_error() { return std::generic_category().message(errno); }

/// Opens a file that is there, as its writer will.
Status check_existing(std::string_view option, const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.valid() ? Status()
                      : refused(option, path, "the file cannot be written: " + last_error());
}

/// Makes a file of another name in the folder, for a moment.
Status check_folder(std::string_view option, const std::string& path, const fs::path& folder) {
  std::string name = (folder / ".ronde-XXXXXX").string();
  const FileDescriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.valid()) {
    return refused(
        option, path,
        fmt::format("no file can be made in the folder {}: {}", folder.string(), last_error()));
  }
  ::unlink(name.c_str());
  return {};
}

}  // namespace

void rename_np(Arguments& arguments) {
  for (std::string& word : arguments) {
    if (word == "-np") word = "--np";
    if (word == "--") return;
  }
}

Arguments take_command(const CLI::App& app, Arguments& arguments) {
  auto begin = arguments.begin();
  while (begin != arguments.end() && begin->size() > 1 && begin->front() == '-' && *begin != "--") {
    rename_long_short(*begin);
    const auto left = static_cast<int>(arguments.end() - begin);
    begin += std::min(1 + values_after(app, *begin), left);
  }
  const bool marked = begin != arguments.end() && *begin == "--";
  Arguments command(marked ? begin + 1 : begin, arguments.end());
  arguments.erase(begin, arguments.end());
  return command;
}

std::string similar_word(std::string_view word, const std::vector<std::string>& names) {
  return std::string(similar_name(word, std::vector<std::string_view>(names.begin(), names.end())));
}

std::string meant_options(const CLI::App& app) {
  const std::vector<std::string> names = option_names(app);
  std::string text;
  for (const std::string& word : app.remaining()) {
    if (!word.starts_with("--")) continue;
    const std::string meant = similar_word(word.substr(0, word.find('=')), names);
    if (!meant.empty()) text += fmt::format("; perhaps {} is meant", meant);
  }
  return text;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

Result<std::string> own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return path.string();
  return Status(Code::kUnavailable,
                fmt::format("cannot read /proc/self/exe, the path of this program: {}; is /proc "
                            "mounted?",
                            error.message()));
}

CLI::Validator whole_number(int least, int most) {
  const auto check = [least, most](const std::string& text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool number = error != std::errc::invalid_argument && end == text.data() + text.size();
    const bool fits = number && error == std::errc() && value >= least && value <= most;
    if (fits) return std::string();
    return fmt::format("\"{}\" {}; allowed are whole numbers from {} to {}", text,
                       number ? "is out of range" : "is no number", least, most);
  };
  return {check, "NUMBER"};
}

CLI::Validator not_empty() {
  const auto check = [](const std::string& text) {
    return text.empty() ? std::string("the value is empty; leave the option out instead") : "";
  };
  return {check, ""};
}

void exit_with(int status) { throw CLI::RuntimeError(status); }

void exit_usage(std::string_view command, const Status& status) {
  fmt::print(stderr, "{}: {}\n", command, status.message());
  if (status.code() == Code::kInvalidArgument) {
    const std::string_view helping = command.substr(0, command.find(" --"));
    fmt::print(stderr, "Run {} --help for what is allowed.\n", helping);
  }
  exit_with(kUsageStatus);
}

namespace {

void show(std::uint64_t done, std::uint64_t total) {
  const std::uint64_t percent = total == 0 ? 100 : 100 * done / total;
  fmt::print(stderr, "\rReading {} MB of traces: {} %{}", total >> 20, percent,
             done >= total ? "\n" : "");
}

}  // namespace

std::function<void(std::uint64_t done, std::uint64_t total)> shown_progress() {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return show;
}

void become_python(std::string_view command, std::vector<std::string> arguments,
                   std::string_view otherwise) {
  const char* const python = std::getenv("RONDE_PYTHON");  // NOLINT(concurrency-mt-unsafe)
  if (python == nullptr) exit_usage(command, {Code::kUnavailable, std::string(otherwise)});
  arguments.insert(arguments.begin(), python);
  (void)become(arguments);
  exit_usage(command, {Code::kUnavailable, fmt::format("cannot run {}: {}", python,
                                                       std::generic_category().message(errno))});
}

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

Status check_output_file(std::string_view option, const std::string& path) {
  if (path.empty()) return {};
  std::error_code ignored;
  const fs::file_status found = fs::status(path, ignored);
  if (fs::is_directory(found)) {
    return refused(option, path,
                   fmt::format("this is a folder; name a file in it, such as {}",
                               (fs::path(path) / "out").string()));
  }
  if (fs::is_regular_file(found)) return check_existing(option, path);
  if (fs::exists(found)) return {};
  const fs::path folder = fs::path(absolute_path(path)).parent_path();
  if (!folder.is_absolute()) {  // the current folder is gone
    return refused(option, path, current_folder().status().message());
  }
  if (!fs::is_directory(folder, ignored)) {
    return refused(option, path,
                   fmt::format("there is no folder {}; make it first", folder.string()));
  }
  return check_folder(option, path, folder);
}

Status make_output_folder(std::string_view option, const std::string& path) {
  if (path.empty()) return {};
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    return refused(option, path, "this is a file; a folder is needed");
  }
  fs::create_directories(path, error);
  if (error) {
    return refused(option, path,
                   fmt::format("cannot make the folder {}: {}", path, error.message()));
  }
  return check_folder(option, path, path);
}

namespace {

/// Commands of shells that are no programs, or would change nothing as programs.
constexpr std::array<std::string_view, 11> kBuiltins = {
    ".", "cd", "eval", "exec", "export", "set", "source", "trap", "ulimit", "umask", "unset"};

/// "VAR=1".
bool is_assignment(std::string_view word) {
  const std::size_t end = word.find('=');
  if (end == 0 || end == std::string_view::npos || std::isdigit(word[0]) != 0) return false;
  return std::ranges::all_of(word.substr(0, end), [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '_';
  });
}

/// One word that holds a whole command line, such as "cd data && python train.py".
bool is_line(const Arguments& command) {
  const bool spaced = command.front().find_first_of(" \t\n;&|<>$") != std::string::npos;
  return command.size() == 1 && spaced && !can_run(command.front()) && !is_there(command.front());
}

bool is_builtin(const Arguments& command) {
  return std::ranges::find(kBuiltins, command.front()) != kBuiltins.end();
}

/// The text for `sh -c`.
std::string line_of(const Arguments& command) {
  if (is_line(command)) return command.front();
  Arguments quoted;
  for (const std::string& word : command) quoted.push_back(shell_quoted(word));
  return join_text(quoted, " ");
}

}  // namespace

bool can_run(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0;
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

Arguments runnable(Arguments command) {
  const std::string& script = command.front();
  const bool path = script.find('/') != std::string::npos;
  const bool runs = path && ::access(script.c_str(), X_OK) == 0;
  if (!script.ends_with(".py") || runs || is_line(command)) return command;
  const char* const python = std::getenv("RONDE_PYTHON");  // NOLINT(concurrency-mt-unsafe)
  command.insert(command.begin(), python == nullptr ? "python3" : python);
  return command;
}

Arguments runnable_as_horovod(const Arguments& command) {
  if (is_line(command)) return {"sh", "-c", command.front()};
  const auto begin = std::ranges::find_if_not(command, is_assignment);
  if (begin == command.end()) return command;
  Arguments program(begin, command.end());
  const bool by_shell = is_line(program) || is_builtin(program);
  program = by_shell ? Arguments{"sh", "-c", line_of(program)} : runnable(std::move(program));
  if (begin == command.begin()) return program;
  Arguments whole = {"env"};
  whole.insert(whole.end(), command.begin(), begin);
  whole.insert(whole.end(), program.begin(), program.end());
  return whole;
}

Status check_needs_no_shell(const Arguments& command) {
  const std::string& first = command.front();
  if (is_assignment(first) && !is_line(command) && !can_run(first)) {
    return {Code::kInvalidArgument,
            fmt::format("\"{0}\" is no program: set a variable by --env {0}, before the command",
                        first)};
  }
  if (!is_line(command) && !is_builtin(command)) return {};
  return {Code::kInvalidArgument,
          fmt::format("\"{}\" is for a shell, and no program: start it by -- sh -c {}", first,
                      shell_quoted(line_of(command)))};
}

}  // namespace ronde
