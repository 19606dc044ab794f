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

namespace {

/// "rank 2 (node1)", "worker 4 (rank 2 in epoch 3, node1)".
std::string row_name(const RecordingInfo& info) {
  if (info.launcher) return "epochs of the job";
  if (info.worker == 0) return fmt::format("rank {} ({})", info.rank, info.host);
  return fmt::format("worker {} (rank {} in epoch {}, {})", info.worker, info.rank, info.epoch,
                     info.host);
}

/// The fields that only elastic jobs have.
std::string elastic_fields(const RecordingInfo& info) {
  if (info.launcher) return ",\"launcher\":1";
  if (info.worker == 0) return {};
  return fmt::format(",\"worker\":{},\"epoch\":{}", info.worker, info.epoch);
}

}  // namespace

std::string format_header(const RecordingInfo& info) {
  const std::string name = json_text(row_name(info));
  const std::string network =
      info.network_card.empty() ? std::string()
                                : fmt::format(",\"network_card\":{},\"network_megabits\":{}",
                                              json_text(info.network_card), info.network_megabits);
  return fmt::format(
      "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{0},\"args\":{{\"name\":{1}}}}},\n"
      "{{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":{0},\"args\":{{\"sort_index\":{12}}}"
      "}},\n"
      "{{\"name\":\"recording\",\"ph\":\"M\",\"pid\":{0},\"args\":{{\"rank\":{13},\"size\":{2},"
      "\"job\":{3},\"host\":{4},\"start_time_since_epoch_in_micros\":{5},\"steady_start_ns\":{6},"
      "\"boot_id\":{7},\"cores\":{8},\"fusion_bytes\":{11}{9}{10}{14}}}}}",
      info.row(), name, info.size, json_text(info.job), json_text(info.host), info.epoch_start_us,
      info.steady_start_ns, json_text(info.boot_id), info.cores,
      info.part > 0 ? fmt::format(",\"part\":{}", info.part) : std::string(), network,
      info.fusion_bytes, info.launcher ? -1 : info.row(), info.rank, elastic_fields(info));
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
  info.worker = value_or(args, "worker", 0);
  info.epoch = value_or(args, "epoch", 0);
  info.launcher = value_or(args, "launcher", 0) != 0;
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
