#include "timeline/recording/trace_head.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <type_traits>
#include <utility>

#include "core/base/json.h"
#include "timeline/recording/trace_format.h"

namespace ronde {
std::string this_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

void set_start(RecordingInfo& info) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  info.boot_id = this_boot_id();
  info.epoch_start_us = std::chrono::duration_cast<std::chrono::microseconds>(wall).count();
  info.steady_start_ns = steady_ns();
}

namespace {

/// "rank 2 (node1)", "worker 4 (rank 2 in epoch 3, node1)".
std::string row_name(const RecordingInfo& info) {
  if (info.launcher) return "epochs of the job";
  if (info.worker == 0) return fmt::format("rank {} ({})", info.rank, info.host);
  return fmt::format("worker {} (rank {} in epoch {}, {})", info.worker, info.rank, info.epoch,
                     info.host);
}

/// A line of metadata about the recording's row.
std::string line(const char* name, const RecordingInfo& info, Json args) {
  const Json object = {{"name", name}, {"ph", "M"}, {"pid", info.row()}, {"args", std::move(args)}};
  return print_json(object);
}

}  // namespace

std::string format_header(const RecordingInfo& info) {
  Json head;
  RecordingInfo::fields(info, [&](const char* name, const auto& field, auto missing) {
    if (field == missing) return;
    if constexpr (std::is_same_v<decltype(missing), bool>) {
      head[name] = 1;
    } else {
      head[name] = field;
    }
  });
  return line("process_name", info, {{"name", row_name(info)}}) + ",\n" +
         line("process_sort_index", info, {{"sort_index", info.launcher ? -1 : info.row()}}) +
         ",\n" + line("recording", info, std::move(head));
}

std::optional<RecordingInfo> parse_recording(std::string_view event) {
  constexpr const char* kWallClock = "start_time_since_epoch_in_micros";
  if (event.find(kWallClock) == std::string_view::npos) return std::nullopt;
  const Json parsed = parse_json(event);
  if (!parsed.is_object()) return std::nullopt;
  const Json args = parsed.value("args", Json::object());
  if (!args.is_object() || !args.contains(kWallClock)) return std::nullopt;
  RecordingInfo info;
  RecordingInfo::fields(info, [&](const char* name, auto& field, auto missing) {
    if (!read_member(args, name, field)) field = missing;
  });
  return info;
}

}  // namespace ronde
