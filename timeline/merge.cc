#include "timeline/merge.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "timeline/trace_reader.h"

namespace ronde {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kHeaderEvents = 1000;  // the clock is among the first events, or there is none

/// When time 0 of one trace was.
struct Clock {
  std::string boot_id;  ///< Empty: no steady clock known.
  std::int64_t steady_start_ns = 0;
  std::int64_t epoch_start_us = 0;
};

Result<Json> parse(const std::string& path, const RawEvent& event) {
  try {
    return Json::parse(event.text);
  } catch (const Json::parse_error& error) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: byte {}: this event is not valid JSON ({})", path,
                              event.offset + error.byte - 1, error.what()));
  }
}

std::optional<Clock> clock_in(const Json& event) {
  const auto args = event.find("args");
  if (args == event.end() || !args->is_object()) return std::nullopt;
  const auto start = args->find("start_time_since_epoch_in_micros");
  if (start == args->end() || !start->is_number_integer()) return std::nullopt;
  Clock clock;
  clock.epoch_start_us = start->get<std::int64_t>();
  const auto boot = args->find("boot_id");
  const auto steady = args->find("steady_start_ns");
  if (boot != args->end() && boot->is_string() && steady != args->end() &&
      steady->is_number_integer()) {
    clock.boot_id = boot->get<std::string>();
    clock.steady_start_ns = steady->get<std::int64_t>();
  }
  return clock;
}

Result<Clock> read_clock(const std::string& path) {
  RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(path));
  for (int i = 0; i < kHeaderEvents; ++i) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> event, reader.next());
    if (!event) break;
    RONDE_ASSIGN_OR_RETURN(const Json parsed, parse(path, *event));
    if (const auto clock = clock_in(parsed)) return *clock;
  }
  return Status(Code::kInvalidArgument,
                fmt::format("{}: no event says start_time_since_epoch_in_micros, so it cannot be "
                            "put on a common clock",
                            path));
}

/// Start of each trace on the common clock, in nanoseconds. The traces of one boot follow its
/// steady clock; the first of them says where that lies on the wall clock.
std::vector<std::int64_t> common_starts(const std::vector<Clock>& clocks) {
  std::map<std::string, std::int64_t> steady_to_wall;
  std::vector<std::int64_t> starts;
  for (const Clock& clock : clocks) {
    const std::int64_t wall_ns = clock.epoch_start_us * 1000;
    if (clock.boot_id.empty()) {
      starts.push_back(wall_ns);
      continue;
    }
    const auto known =
        steady_to_wall.try_emplace(clock.boot_id, wall_ns - clock.steady_start_ns).first;
    starts.push_back(clock.steady_start_ns + known->second);
  }
  return starts;
}

/// The output, which appears under its name only when complete.
class Output {
 public:
  explicit Output(const std::string& path)
      : path_(path), draft_(fmt::format("{}.{}.tmp", path, ::getpid())), file_(draft_) {}
  ~Output() {
    std::error_code ignored;
    if (!done_) std::filesystem::remove(draft_, ignored);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void add(const Json& event) {
    file_ << (count_++ == 0 ? "[\n" : ",\n")
          << event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  Status finish() {
    file_ << (count_ == 0 ? "[\n]\n" : "\n]\n");
    file_.close();
    std::error_code error = std::make_error_code(std::errc::io_error);
    if (file_) std::filesystem::rename(draft_, path_, error);
    if (file_ && !error) {
      done_ = true;
      return {};
    }
    return {Code::kUnavailable, fmt::format("cannot write {}: {}", path_, error.message())};
  }

  [[nodiscard]] std::size_t count() const noexcept { return count_; }

 private:
  const std::string path_;
  const std::string draft_;
  std::ofstream file_;
  std::size_t count_ = 0;
  bool done_ = false;
};

/// Copies one trace, its times moved by `shift_ns`; true where its end was missing.
Result<bool> copy_shifted(const std::string& path, std::int64_t shift_ns, Output& output) {
  RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(path));
  for (;;) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> event, reader.next());
    if (!event) return reader.truncated();
    RONDE_ASSIGN_OR_RETURN(Json parsed, parse(path, *event));
    const auto time = parsed.find("ts");
    if (time != parsed.end() && time->is_number()) {
      *time = time->get<double>() + static_cast<double>(shift_ns) / 1000;
    }
    output.add(parsed);
  }
}

}  // namespace

Result<MergeReport> merge_traces(const std::vector<std::string>& inputs,
                                 const std::string& output) {
  std::vector<Clock> clocks;
  for (const std::string& path : inputs) {
    RONDE_ASSIGN_OR_RETURN(Clock clock, read_clock(path));
    clocks.push_back(std::move(clock));
  }
  const std::vector<std::int64_t> starts = common_starts(clocks);
  MergeReport report;
  Output merged(output);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::int64_t first = *std::min_element(starts.begin(), starts.end());
    RONDE_ASSIGN_OR_RETURN(const bool truncated,
                           copy_shifted(inputs[i], starts[i] - first, merged));
    if (truncated) report.truncated.push_back(inputs[i]);
  }
  RONDE_RETURN_IF_ERROR(merged.finish());
  report.events = merged.count();
  return report;
}

}  // namespace ronde
