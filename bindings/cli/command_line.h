// Shared by the commands: words of the command line, which are split, completed, expanded and
// checked; exits, progress, Python.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace ronde {

using Arguments = std::vector<std::string>;

/// Reads "-np" as one option. The usual rules read it as -n with the value "p".
void rename_np(Arguments& arguments);

/// Cuts the command to run off `arguments` and returns it: it begins after the first "--", or at
/// the first word that is neither an option of `app` nor an option's value. Options of several
/// letters behind one dash, such as "-np", get their second dash.
Arguments take_command(const CLI::App& app, Arguments& arguments);

/// The name that is most similar to a mistyped word; empty if none is.
std::string similar_word(std::string_view word, const std::vector<std::string>& names);

/// "; perhaps --timeline is meant" for the options that `app` has not understood; empty if no
/// option is similar.
std::string meant_options(const CLI::App& app);

/// The names of the app's subcommands, in order.
std::vector<std::string> command_names(const CLI::App& app);

/// Accepts a whole number between `least` and `most`.
CLI::Validator whole_number(int least, int most);

/// Refuses an empty text, such as that of a shell's variable without a value.
CLI::Validator not_empty();

/// The path of this program. Errors: kUnavailable where there is no /proc.
Result<std::string> own_program();

/// Exit status for invalid command lines and inputs.
inline constexpr int kUsageStatus = 2;

/// Ends the program with `status`, by an exception that main() turns into it.
[[noreturn]] void exit_with(int status);

/// Prints why `command` cannot do its work, and ends with kUsageStatus. For an argument that is not
/// allowed, it names the --help of the command, which may have an option behind it.
[[noreturn]] void exit_usage(std::string_view command, const Status& status);

/// As exit_usage() where `status` is an error.
inline void exit_if_failed(std::string_view command, const Status& status) {
  if (!status.ok()) exit_usage(command, status);
}

/// The value; as exit_usage() where there is none.
template <typename T>
T value_or_exit(std::string_view command, Result<T> result) {
  exit_if_failed(command, result.status());
  return std::move(result).value();
}

/// Shows read and total bytes on one line of stderr; empty if stderr is no terminal.
std::function<void(std::uint64_t done, std::uint64_t total)> shown_progress();

/// Replaces this process by the Python that started the package's `ronde` command, with these
/// arguments. Without one, ends as exit_usage() does; `otherwise`: the advice to print then.
[[noreturn]] void become_python(std::string_view command, std::vector<std::string> arguments,
                                std::string_view otherwise);

/// The commands, or the options, that may stand in the place of the last of `words`, which has been
/// begun. `words` follow the name of this program. Empty where the shell's own completion of files
/// is better, such as for the program of `ronde run`.
std::vector<std::string> completions(const CLI::App& app, const Arguments& words);

/// Adds the subcommand `completion`. It prints the script for a shell, which asks `ronde
/// complete-words`.
void add_completion_command(CLI::App& app);

/// Makes sure that the file `path` can be written; neither makes nor changes it. An empty path is
/// none. Devices and pipes are not opened.
/// Errors: kInvalidArgument naming `option`, the path, why not and what to do.
Status check_output_file(std::string_view option, const std::string& path);

/// Makes the folder `path` unless it is there, and makes sure that files can be written in it. An
/// empty path is none. Errors: as above.
Status make_output_folder(std::string_view option, const std::string& path);

/// Replaces --config-file FILE among the words of horovodrun by the flags that the file asks for.
/// Flags that are given already win. `arguments`: without the command to run.
/// Errors: kInvalidArgument naming the file and the line.
Status expand_horovod_config(Arguments& arguments);

/// The flags for a file's text. It is YAML of two levels, as Horovod documents: sections that hold
/// "key: value". `given`: as above. `unknown`: keys without a meaning.
/// Errors: kInvalidArgument naming the line.
Result<Arguments> horovod_config_flags(std::string_view text, const Arguments& given,
                                       Arguments& unknown);

/// True if execvp() would find the program on this host.
bool can_run(const std::string& program);

/// The command as it is started. A Python script that cannot be run as it stands runs with the
/// Python that started this program.
Arguments runnable(Arguments command);

/// As runnable(). A shell runs what a shell alone understands, and variables before the command are
/// set, as with Horovod.
Arguments runnable_as_horovod(const Arguments& command);

/// Refuses a command that only a shell would understand.
/// Errors: kInvalidArgument, with the command to type instead.
Status check_needs_no_shell(const Arguments& command);

}  // namespace ronde
