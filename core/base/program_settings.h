// Documented variables that are no field of Config: programs of Ronde read them themselves.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/base/config.h"

namespace ronde {

/// One such variable.
struct ProgramSetting {
  SettingInfo info;
  std::string_view otherwise;             ///< Its value where it is unset.
  std::vector<std::string_view> allowed;  ///< Empty allows any text.
};

/// All of them, in the order in which they are documented.
std::span<const ProgramSetting> program_settings();

/// Checks those that `environment` has.
/// Errors: kInvalidArgument naming the variable, its value and what is allowed.
Status check_program_settings(const Environment& environment);

}  // namespace ronde
