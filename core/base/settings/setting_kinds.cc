#include "core/base/settings/setting_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "core/base/join_text.h"

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

std::string as_it_is(const std::string& value) { return value; }

constexpr auto kShowNumber = [](auto value) { return fmt::format("{}", value); };
constexpr auto kShowCount = [](auto value) { return fmt::format("{}", value.count()); };

/// A setting of this field. `parse` gives the value of a text, or nothing: then the error says what
/// is `allowed`. `show` gives its text.
template <typename T, typename Parse, typename Show>
Setting setting(const SettingInfo& info, T Config::*field, std::string allowed, Parse parse,
                Show show) {
  return {info,
          [=](Config& config, const std::string& value) {
            const auto parsed = parse(value);
            if (!parsed) return bad_value(info.name, value, allowed);
            config.*field = static_cast<T>(*parsed);
            return Status();
          },
          [=](const Config& config) { return show(config.*field); }};
}

template <typename Chrono>
Setting duration(const SettingInfo& info, Chrono Config::*field) {
  constexpr int kMost = std::numeric_limits<int>::max();
  return setting(
      info, field, fmt::format("whole {} from 0 to {}", info.unit, kMost),
      [](const std::string& value) { return parse_integer(value, 0, kMost); }, kShowCount);
}

}  // namespace

Setting text(SettingInfo info, std::string Config::*field) {
  return setting(
      info, field, "", [](const std::string& value) { return std::optional(value); }, as_it_is);
}

Setting integer(SettingInfo info, int Config::*field, int low, int high) {
  const bool bounded = high != std::numeric_limits<int>::max();
  return setting(
      info, field,
      fmt::format("whole numbers from {}{}", low, bounded ? fmt::format(" to {}", high) : ""),
      [=](const std::string& value) { return parse_integer(value, low, high); }, kShowNumber);
}

Setting size(SettingInfo info, std::size_t Config::*field, std::size_t most) {
  const bool bounded = most != std::numeric_limits<std::size_t>::max();
  return setting(
      info, field,
      fmt::format("{} as a whole number from 0{}", info.unit,
                  bounded ? fmt::format(" to {}", most) : ", or 64K, 16M, 1G"),
      [=](const std::string& value) {
        const auto parsed = parse_size(value);
        return parsed && static_cast<std::size_t>(*parsed) <= most ? parsed : std::nullopt;
      },
      kShowNumber);
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
  return setting(
      info, field, "a number of seconds from 0 to 1000000",
      [](const std::string& value) -> std::optional<double> {
        double parsed = -1;
        const auto [end, error] =
            std::from_chars(value.data(), value.data() + value.size(), parsed);
        const bool whole = error == std::errc() && end == value.data() + value.size();
        if (!whole || !(parsed >= 0 && parsed <= kMostSeconds)) return std::nullopt;
        return parsed;
      },
      kShowCount);
}

Setting freeze(SettingInfo info) {
  return setting(
      info, &Config::freeze_timeout, "0, or whole s from 4 to 2147483647",
      [](const std::string& value) {
        const auto parsed = parse_integer(value, 0, std::numeric_limits<int>::max());
        return parsed && *parsed > 0 && *parsed < 4 ? std::nullopt : parsed;
      },
      kShowCount);
}

Setting flag(SettingInfo info, bool Config::*field) {
  return setting(
      info, field, "0 or 1",
      [](const std::string& value) {
        return value == "0" || value == "1" ? std::optional(value == "1") : std::nullopt;
      },
      [](bool value) { return std::string(value ? "1" : "0"); });
}

Setting one_of(SettingInfo info, std::string Config::*field, std::vector<std::string> allowed) {
  std::string names = join_text(allowed, ", ");
  return setting(
      info, field, std::move(names),
      [allowed = std::move(allowed)](const std::string& value) {
        const bool known = std::ranges::count(allowed, value) > 0;
        return known ? std::optional(value) : std::nullopt;
      },
      as_it_is);
}

Setting level(SettingInfo info, LogLevel Config::*field) {
  return setting(
      info, field, join_text(kLevels, ", "),
      [](const std::string& value) -> std::optional<std::ptrdiff_t> {
        const auto* const found = std::ranges::find(kLevels, value);
        return found == kLevels.end() ? std::nullopt : std::optional(found - kLevels.begin());
      },
      [](LogLevel value) { return std::string(kLevels[static_cast<std::size_t>(value)]); });
}

}  // namespace setting_kinds
}  // namespace ronde
