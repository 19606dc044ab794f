// Shared by the commands: splitting of arguments, exits, progress, Python.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/collective.h"
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

/// The collective of this name that has data to move or ranks to wait for: all but join.
/// Errors: kInvalidArgument naming the value and what is allowed.
Result<Collective> parse_data_collective(std::string_view text);

/// For options that take a number.
CLI::Validator whole_number(int least, int most);

/// The path of this program. Errors: kUnavailable where there is no /proc.
Result<std::string> own_program();

/// Exit status for invalid command lines and inputs.
inline constexpr int kUsageStatus = 2;

/// Ends the program with `status`, by an exception that main() turns into it.
[[noreturn]] void exit_with(int status);

/// Prints why `command` cannot do its work, and ends with kUsageStatus. For an argument that is not
/// allowed, it names the --help of the command, which may have an option behind it.
[[noreturn]] void exit_usage(std::string_view command, const Status& status);

/// Shows read and total bytes on one line of stderr; empty if stderr is no terminal.
std::function<void(std::uint64_t done, std::uint64_t total)> shown_progress();

/// Replaces this process by the Python that started the package's `ronde` command, with these
/// arguments. Without one, ends as exit_usage() does; `otherwise`: the advice to print then.
[[noreturn]] void become_python(std::string_view command, std::vector<std::string> arguments,
                                std::string_view otherwise);

}  // namespace ronde
