// Documented variables that are no field of Config, and variables that look like settings but are
// none, mostly mistyped names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/settings/config.h"
#include "core/base/settings/horovod_names.h"

namespace ronde {

/// A variable that programs of Ronde read themselves.
struct ProgramSetting {
  SettingInfo info;
  std::string_view otherwise;             ///< Its value where it is unset.
  std::vector<std::string_view> allowed;  ///< Empty allows any text.
};

/// All such variables, in the order in which they are documented.
std::span<const ProgramSetting> program_settings();

/// Checks the program settings that `environment` has.
/// Errors: kInvalidArgument naming the variable, its value and what is allowed.
Status check_program_settings(const Environment& environment);

/// This process's environment variables.
std::vector<NamedValue> process_variables();

/// One sentence for each name that begins with RONDE_ and is no setting, with the most similar
/// setting, and for each HOROVOD_ variable without an effect. Names that begin with RONDE_TEST_ or
/// RONDE_CHAOS_ belong to tests.
std::vector<std::string> describe_unknown_settings(std::span<const NamedValue> variables);

/// The name that is most similar to the word; empty if none differs in a third of its letters or
/// less. Two letters in the wrong order count as one difference.
std::string_view similar_name(std::string_view word, std::span<const std::string_view> names);

}  // namespace ronde
