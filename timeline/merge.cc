#include "timeline/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "timeline/recording.h"
#include "timeline/report/event_parser.h"
#include "timeline/trace_output.h"
#include "timeline/trace_reader.h"

namespace ronde {
namespace {

constexpr int kHeaderEvents = 1000;  // the clock is among the first events, or there is none

Status malformed(const std::string& path, const RawEvent& event, const Status& why) {
  return {Code::kInvalidArgument,
          fmt::format("{}: byte {}: {}", path, event.offset, why.message())};
}

Result<RecordingInfo> read_clock(const std::string& path) {
  RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(path));
  report::EventParser parser;
  for (int i = 0; i < kHeaderEvents; ++i) {
    RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> event, reader.next());
    if (!event) break;
    if (const auto parsed = parser.parse(event->text); !parsed.ok()) {
      return malformed(path, *event, parsed.status());
    }
    if (auto recording = parse_recording(event->text)) return std::move(*recording);
  }
  return Status(Code::kInvalidArgument,
                fmt::format("{}: no event says start_time_since_epoch_in_micros, so it cannot be "
                            "put on a common clock",
                            path));
}

/// Copies traces to the output.
class Copier {
 public:
  explicit Copier(TraceOutput& output) : output_(output) {}

  /// Copies one trace, its times moved by `shift_ns`; true where its end was missing.
  Result<bool> copy(const std::string& path, std::int64_t shift_ns) {
    RONDE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(path));
    for (;;) {
      RONDE_ASSIGN_OR_RETURN(const std::optional<RawEvent> raw, reader.next());
      if (!raw) return reader.truncated();
      const auto event = parser_.parse(raw->text);
      if (!event.ok()) return malformed(path, *raw, event.status());
      output_.add({raw->text, *event, event->time_ns + shift_ns});
      ++events_;
    }
  }

  [[nodiscard]] std::size_t events() const noexcept { return events_; }

 private:
  TraceOutput& output_;
  report::EventParser parser_;
  std::size_t events_ = 0;
};

}  // namespace

Result<MergeReport> merge_traces(const std::vector<std::string>& inputs,
                                 const std::string& output) {
  std::vector<RecordingInfo> recordings;
  for (const std::string& path : inputs) {
    RONDE_ASSIGN_OR_RETURN(RecordingInfo recording, read_clock(path));
    recordings.push_back(std::move(recording));
  }
  const std::vector<std::int64_t> starts = common_starts(recordings);
  const std::int64_t first = *std::min_element(starts.begin(), starts.end());
  RONDE_ASSIGN_OR_RETURN(const std::unique_ptr<TraceOutput> merged, open_output(output));
  MergeReport report;
  Copier copier(*merged);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    RONDE_ASSIGN_OR_RETURN(const bool truncated, copier.copy(inputs[i], starts[i] - first));
    if (truncated) report.truncated.push_back(inputs[i]);
  }
  RONDE_RETURN_IF_ERROR(merged->finish());
  report.events = copier.events();
  return report;
}

}  // namespace ronde
