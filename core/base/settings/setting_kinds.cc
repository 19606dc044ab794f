#include "core/base/settings/setting_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>

namespace ronde {

Status bad_value(std::string_view name, std::string_view value, std::string_view allowed) {
  return {Code::kInvalidArgument,
          fmt::format("{}=\"{}\" is not valid; allowed: {}", name, value, allowed)};
}

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t low,
                                          std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < low || value > high) return std::nullopt;
  return value;
}

namespace setting_kinds {
namespace {

constexpr double kMostSeconds = 1e6;

constexpr std::array<std::string_view, 6> kLevels = {"trace",   "debug", "info",
                                                     "warning", "error", "off"};

/// "64K", "1M", "2G" or plain bytes.
std::optional<std::int64_t> parse_size(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    const char unit = text.back();
    shift = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
    if (shift != 0) text.remove_suffix(1);
  }
  const auto value = parse_integer(text, 0, std::numeric_limits<std::int64_t>::max() >> shift);
  if (!value) return std::nullopt;
  return *value << shift;
}

template <typename Chrono>
Setting duration(SettingInfo info, Chrono Config::*field) {
  return {info,
          [=](Config& config, const std::string& value) {
            const auto parsed = parse_integer(value, 0, std::numeric_limits<int>::max());
            if (!parsed) {
              return bad_value(info.name, value,
                               fmt::format("whole {} from 0 to 2147483647", info.unit));
            }
            config.*field = Chrono(*parsed);
            return Status();
          },
          [field](const Config& config) { return fmt::to_string((config.*field).count()); }};
}

}  // namespace

Setting text(SettingInfo info, std::string Config::*field) {
  return {info,
          [field](Config& config, const std::string& value) {
            config.*field = value;
            return Status();
          },
          [field](const Config& config) { return config.*field; }};
}

Setting integer(SettingInfo info, int Config::*field, int low, int high) {
  return {info,
          [=](Config& config, const std::string& value) {
            const auto parsed = parse_integer(value, low, high);
            if (!parsed) {
              const bool bounded = high != std::numeric_limits<int>::max();
              const std::string end = bounded ? fmt::format(" to {}", high) : std::string();
              return bad_value(info.name, value, fmt::format("whole numbers from {}{}", low, end));
            }
            config.*field = static_cast<int>(*parsed);
            return Status();
          },
          [field](const Config& config) { return fmt::to_string(config.*field); }};
}

Setting size(SettingInfo info, std::size_t Config::*field, std::size_t most) {
  return {info,
          [=](Config& config, const std::string& value) {
            const auto parsed = parse_size(value);
            if (!parsed || static_cast<std::size_t>(*parsed) > most) {
              const bool bounded = most != std::numeric_limits<std::size_t>::max();
              const std::string end =
                  bounded ? fmt::format(" to {}", most) : std::string(", or 64K, 16M, 1G");
              return bad_value(info.name, value,
                               fmt::format("{} as a whole number from 0{}", info.unit, end));
            }
            config.*field = static_cast<std::size_t>(*parsed);
            return Status();
          },
          [field](const Config& config) { return fmt::to_string(config.*field); }};
}

Setting time(SettingInfo info, std::chrono::microseconds Config::*field) {
  return duration(info, field);
}
Setting time(SettingInfo info, std::chrono::milliseconds Config::*field) {
  return duration(info, field);
}
Setting time(SettingInfo info, std::chrono::seconds Config::*field) {
  return duration(info, field);
}

Setting seconds(SettingInfo info, std::chrono::duration<double> Config::*field) {
  return {info,
          [=](Config& config, const std::string& value) {
            double parsed = -1;
            const auto [end, error] =
                std::from_chars(value.data(), value.data() + value.size(), parsed);
            const bool whole = error == std::errc() && end == value.data() + value.size();
            if (!whole || !(parsed >= 0 && parsed <= kMostSeconds)) {
              return bad_value(info.name, value, "a number of seconds from 0 to 1000000");
            }
            config.*field = std::chrono::duration<double>(parsed);
            return Status();
          },
          [field](const Config& config) { return fmt::to_string((config.*field).count()); }};
}

Setting freeze(SettingInfo info) {
  return {info,
          [=](Config& config, const std::string& value) {
            const auto parsed = parse_integer(value, 0, std::numeric_limits<int>::max());
            if (!parsed || (*parsed > 0 && *parsed < 4)) {
              return bad_value(info.name, value, "0, or whole s from 4 to 2147483647");
            }
            config.freeze_timeout = std::chrono::seconds(*parsed);
            return Status();
          },
          [](const Config& config) { return fmt::to_string(config.freeze_timeout.count()); }};
}

Setting flag(SettingInfo info, bool Config::*field) {
  return {info,
          [=](Config& config, const std::string& value) {
            if (value != "0" && value != "1") return bad_value(info.name, value, "0 or 1");
            config.*field = value == "1";
            return Status();
          },
          [field](const Config& config) { return std::string(config.*field ? "1" : "0"); }};
}

Setting one_of(SettingInfo info, std::string Config::*field, std::vector<std::string> allowed) {
  return {info,
          [=](Config& config, const std::string& value) {
            for (const std::string& candidate : allowed) {
              if (value == candidate) {
                config.*field = value;
                return Status();
              }
            }
            return bad_value(info.name, value, fmt::format("{}", fmt::join(allowed, ", ")));
          },
          [field](const Config& config) { return config.*field; }};
}

Setting level(SettingInfo info, LogLevel Config::*field) {
  return {info,
          [=](Config& config, const std::string& value) {
            for (std::size_t i = 0; i < kLevels.size(); ++i) {
              if (value == kLevels[i]) {
                config.*field = static_cast<LogLevel>(i);
                return Status();
              }
            }
            return bad_value(info.name, value, fmt::format("{}", fmt::join(kLevels, ", ")));
          },
          [field](const Config& config) {
            return std::string(kLevels[static_cast<std::size_t>(config.*field)]);
          }};
}

}  // namespace setting_kinds
}  // namespace ronde
