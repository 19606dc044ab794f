#include "timeline/recording/trace_head.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "timeline/recording/trace_format.h"

namespace ronde {
namespace {

using SortedJson = nlohmann::json;

/// The value under `key`, or `otherwise` if it is missing or of another type.
template <typename T>
T value_or(const SortedJson& object, const char* key, const T& otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->template get<T>() : otherwise;
  } else {
    return found->is_number_integer() ? found->template get<T>() : otherwise;
  }
}

}  // namespace

std::string this_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

std::string format_header(const RecordingInfo& info) {
  const std::string name = json_text(fmt::format("rank {} ({})", info.rank, info.host));
  const std::string network =
      info.network_card.empty() ? std::string()
                                : fmt::format(",\"network_card\":{},\"network_megabits\":{}",
                                              json_text(info.network_card), info.network_megabits);
  return fmt::format(
      "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{0},\"args\":{{\"name\":{1}}}}},\n"
      "{{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":{0},\"args\":{{\"sort_index\":{0}}}"
      "}},\n"
      "{{\"name\":\"recording\",\"ph\":\"M\",\"pid\":{0},\"args\":{{\"rank\":{0},\"size\":{2},"
      "\"job\":{3},\"host\":{4},\"start_time_since_epoch_in_micros\":{5},\"steady_start_ns\":{6},"
      "\"boot_id\":{7},\"cores\":{8},\"fusion_bytes\":{11}{9}{10}}}}}",
      info.rank, name, info.size, json_text(info.job), json_text(info.host), info.epoch_start_us,
      info.steady_start_ns, json_text(info.boot_id), info.cores,
      info.part > 0 ? fmt::format(",\"part\":{}", info.part) : std::string(), network,
      info.fusion_bytes);
}

std::optional<RecordingInfo> parse_recording(std::string_view event) {
  constexpr const char* kWallClock = "start_time_since_epoch_in_micros";
  if (event.find(kWallClock) == std::string_view::npos) return std::nullopt;
  const SortedJson parsed = SortedJson::parse(event, nullptr, false);
  if (!parsed.is_object()) return std::nullopt;
  const SortedJson args = parsed.value("args", SortedJson::object());
  if (!args.is_object() || !args.contains(kWallClock)) return std::nullopt;
  RecordingInfo info;
  info.rank = value_or(args, "rank", -1);
  info.size = value_or(args, "size", 0);
  info.host = value_or<std::string>(args, "host", "");
  info.part = value_or(args, "part", 0);
  info.cores = value_or(args, "cores", 0);
  info.job = value_or<std::string>(args, "job", "");
  info.fusion_bytes = value_or<std::int64_t>(args, "fusion_bytes", -1);
  info.network_card = value_or<std::string>(args, "network_card", "");
  info.network_megabits = value_or(args, "network_megabits", 0);
  info.epoch_start_us = value_or<std::int64_t>(args, kWallClock, 0);
  if (args.contains("steady_start_ns")) {
    info.boot_id = value_or<std::string>(args, "boot_id", "");
    info.steady_start_ns = value_or<std::int64_t>(args, "steady_start_ns", 0);
  }
  return info;
}

}  // namespace ronde
