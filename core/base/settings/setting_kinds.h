// The kinds of settings: how the text of a variable becomes a field of Config, and back.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/settings/config.h"
#include "core/base/status.h"

namespace ronde {

/// One row: how a variable is read into a Config and written back.
struct Setting {
  SettingInfo info;
  std::function<Status(Config&, const std::string&)> set;
  std::function<std::string(const Config&)> get;
};

/// kInvalidArgument: NAME="value" is not valid; allowed: ...
Status bad_value(std::string_view name, std::string_view value, std::string_view allowed);

/// Reads a whole decimal number within [low, high]; nothing where `text` is anything else.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t low,
                                          std::int64_t high);

/// The kinds. Their errors are kInvalidArgument, and name the variable, its value and what is
/// allowed.
namespace setting_kinds {

Setting text(SettingInfo info, std::string Config::*field);
Setting integer(SettingInfo info, int Config::*field, int low,
                int high = std::numeric_limits<int>::max());
/// A number of info.unit up to `most`: "64K", "1M", "2G" or a plain number.
Setting size(SettingInfo info, std::size_t Config::*field,
             std::size_t most = std::numeric_limits<std::size_t>::max());
/// A whole number of info.unit.
Setting time(SettingInfo info, std::chrono::microseconds Config::*field);
Setting time(SettingInfo info, std::chrono::milliseconds Config::*field);
Setting time(SettingInfo info, std::chrono::seconds Config::*field);
/// A number of seconds, such as 2.5.
Setting seconds(SettingInfo info, std::chrono::duration<double> Config::*field);
/// The setting of Config::freeze_timeout. A few seconds of silence are no proof: a busy machine may
/// not run a rank for so long.
Setting freeze(SettingInfo info);
/// 0 or 1.
Setting flag(SettingInfo info, bool Config::*field);
Setting one_of(SettingInfo info, std::string Config::*field, std::vector<std::string> allowed);
Setting level(SettingInfo info, LogLevel Config::*field);

}  // namespace setting_kinds
}  // namespace ronde
