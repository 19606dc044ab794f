#include "timeline/merge.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "timeline/recording.h"
#include "timeline/trace_reader.h"

namespace ronde {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kHeaderEvents = 1000;  // the clock is among the first events, or there is none

Result<Json> parse(const std::string& path, const RawEvent& event) {
  try {
    return Json::parse(event.text);
  } catch (const Json::parse_error& error) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: byte {}: this event is not valid JSON ({})", path,
                              event.offset + error.byte - 1, error.what()));
  }
}

Result<RecordingInfo> read_clock(const std::string& path) {
  RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(path));
  for (int i = 0; i < kHeaderEvents; ++i) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> event, reader.next());
    if (!event) break;
    RONDE_RETURN_IF_ERROR(parse(path, *event).status());
    if (auto recording = parse_recording(event->text)) return std::move(*recording);
  }
  return Status(Code::kInvalidArgument,
                fmt::format("{}: no event says start_time_since_epoch_in_micros, so it cannot be "
                            "put on a common clock",
                            path));
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
  std::vector<RecordingInfo> recordings;
  for (const std::string& path : inputs) {
    RONDE_ASSIGN_OR_RETURN(RecordingInfo recording, read_clock(path));
    recordings.push_back(std::move(recording));
  }
  const std::vector<std::int64_t> starts = common_starts(recordings);
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
